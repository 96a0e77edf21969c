// UpdateLanes: an update rule's formula over the elements of a range, a vector at a time.
//
//   UpdateLanes<1>(range, [&](auto gradient, auto& weight, auto& momentum) HWY_ATTR { ... });
//
// Included once for each Highway target; see hwy/foreach_target.h. The last elements, fewer than a vector, go
// through the same arithmetic in a padded copy: an element's bits depend on its own values only, not on where
// a range was cut.
#if defined(ARMATURE_OPTIM_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ARMATURE_OPTIM_LANES_INL_H_
#undef ARMATURE_OPTIM_LANES_INL_H_
#else
#define ARMATURE_OPTIM_LANES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "armature/optim/update_ranges.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Sets of arrays that a formula changes; the others are not written, which saves their bandwidth.
constexpr unsigned kWeight = 1, kAllButWeight = 14, kAll = 15;

// One vector: loads, calls formula(gradient, weight, states...), stores. The gradient comes scaled; an
// argument that the formula does not use is not loaded.
template <int kStates, unsigned kStored, typename D, typename Formula>
HWY_INLINE void UpdateVector(D d, const UpdateRange& range, int64_t at, const Formula& formula) {
  const auto gradient = hn::Mul(hn::LoadU(d, range.gradient + at), hn::Set(d, range.gradient_scale));
  auto weight = hn::LoadU(d, range.weight + at);
  if constexpr (kStates == 0) {
    formula(gradient, weight);
  } else {
    auto state0 = hn::LoadU(d, range.state[0] + at);
    if constexpr (kStates == 1) {
      formula(gradient, weight, state0);
    } else {
      auto state1 = hn::LoadU(d, range.state[1] + at);
      if constexpr (kStates == 2) {
        formula(gradient, weight, state0, state1);
      } else {
        auto state2 = hn::LoadU(d, range.state[2] + at);
        formula(gradient, weight, state0, state1, state2);
        if constexpr ((kStored & 8) != 0) hn::StoreU(state2, d, range.state[2] + at);
      }
      if constexpr ((kStored & 4) != 0) hn::StoreU(state1, d, range.state[1] + at);
    }
    if constexpr ((kStored & 2) != 0) hn::StoreU(state0, d, range.state[0] + at);
  }
  if constexpr ((kStored & kWeight) != 0) hn::StoreU(weight, d, range.weight + at);
}

template <int kStates, unsigned kStored = kAll, typename Formula>
HWY_INLINE void UpdateLanes(const UpdateRange& range, const Formula& formula) {
  static_assert(kStates <= kMaxStates, "UpdateRange has room for kMaxStates");
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // A copy whose address nobody else has: the compiler keeps its pointers in registers.
  const UpdateRange local = range;
  int64_t at = 0;
  for (; at + lanes <= local.count; at += lanes) UpdateVector<kStates, kStored>(d, local, at, formula);
  const int64_t rest = local.count - at;
  if (rest == 0) return;

  HWY_ALIGN float padded[2 + kStates][hn::MaxLanes(d)] = {};
  UpdateRange tail = local;
  tail.weight = padded[0];
  tail.gradient = padded[1];
  std::copy_n(local.weight + at, rest, padded[0]);
  std::copy_n(local.gradient + at, rest, padded[1]);
  for (int i = 0; i < kStates; ++i) {
    tail.state[i] = padded[2 + i];
    std::copy_n(local.state[i] + at, rest, padded[2 + i]);
  }
  UpdateVector<kStates, kStored>(d, tail, 0, formula);
  std::copy_n(padded[0], rest, local.weight + at);
  for (int i = 0; i < kStates; ++i) std::copy_n(padded[2 + i], rest, local.state[i] + at);
}

}  // namespace HWY_NAMESPACE
}  // namespace armature
HWY_AFTER_NAMESPACE();

#endif  // ARMATURE_OPTIM_LANES_INL_H_
