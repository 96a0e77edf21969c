// Loops over arrays, a vector of f32 lanes at a time.
//
//   ForLanes(d, count, [&](int64_t i, auto lanes) HWY_ATTR {
//     lanes.Store(hn::Add(lanes.Load(d, a + i), lanes.Load(d, b + i)), d, sum + i);
//   });
//
// `lanes` is AllLanes, or FirstLanes where fewer than a vector remain: those load zeros elsewhere and store
// nothing there. The last elements go through the same arithmetic as all others, so that an element's bits do
// not depend on where a range was cut. Arrays may be of any storage type that LoadAsFloat and StoreFromFloat
// know.
//
// Included once for each Highway target; see hwy/foreach_target.h.
#if defined(ARMATURE_TENSOR_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ARMATURE_TENSOR_CPU_LANES_INL_H_
#undef ARMATURE_TENSOR_CPU_LANES_INL_H_
#else
#define ARMATURE_TENSOR_CPU_LANES_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct AllLanes {
  template <class D>
  HWY_INLINE hn::Vec<D> Load(D d, const float* from) const {
    return hn::LoadU(d, from);
  }
  template <class D>
  HWY_INLINE void Store(hn::Vec<D> v, D d, float* to) const {
    hn::StoreU(v, d, to);
  }
  // v in lanes that exist, 0 in the others.
  template <class D>
  HWY_INLINE hn::Vec<D> Keep(D, hn::Vec<D> v) const {
    return v;
  }
};

struct FirstLanes {
  size_t count;

  template <class D>
  HWY_INLINE hn::Vec<D> Load(D d, const float* from) const {
    return hn::MaskedLoad(hn::FirstN(d, count), d, from);
  }
  template <class D>
  HWY_INLINE void Store(hn::Vec<D> v, D d, float* to) const {
    hn::BlendedStore(v, hn::FirstN(d, count), d, to);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Keep(D d, hn::Vec<D> v) const {
    return hn::IfThenElseZero(hn::FirstN(d, count), v);
  }
};

// Calls body(i, lanes) for i = 0, N, 2N ... below count.
template <class D, class Body>
HWY_INLINE void ForLanes(D d, int64_t count, const Body& body) {
  const int64_t n = hn::Lanes(d);
  int64_t i = 0;
  for (; i + n <= count; i += n) body(i, AllLanes());
  if (i < count) body(i, FirstLanes{static_cast<size_t>(count - i)});
}

// The sum of term(i, lanes) over the same i and over all lanes. `term` must be 0 in lanes that it does not
// load. Four partial sums hide the latency of an addition; the order depends on count and the target only.
template <class D, class Term>
HWY_INLINE float SumLanes(D d, int64_t count, const Term& term) {
  const int64_t n = hn::Lanes(d);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    a = hn::Add(a, term(i, AllLanes()));
    b = hn::Add(b, term(i + n, AllLanes()));
    c = hn::Add(c, term(i + 2 * n, AllLanes()));
    e = hn::Add(e, term(i + 3 * n, AllLanes()));
  }
  for (; i + n <= count; i += n) a = hn::Add(a, term(i, AllLanes()));
  if (i < count) b = hn::Add(b, term(i, FirstLanes{static_cast<size_t>(count - i)}));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

struct SumPair {
  float first, second;
};

// Two sums in one pass: add_terms(i, lanes, first, second) adds its terms to two vectors.
template <class D, class AddTerms>
HWY_INLINE SumPair SumLanePairs(D d, int64_t count, const AddTerms& add_terms) {
  const int64_t n = hn::Lanes(d);
  auto first_a = hn::Zero(d), first_b = first_a, second_a = first_a, second_b = first_a;
  int64_t i = 0;
  for (; i + 2 * n <= count; i += 2 * n) {
    add_terms(i, AllLanes(), first_a, second_a);
    add_terms(i + n, AllLanes(), first_b, second_b);
  }
  for (; i + n <= count; i += n) add_terms(i, AllLanes(), first_a, second_a);
  if (i < count) add_terms(i, FirstLanes{static_cast<size_t>(count - i)}, first_b, second_b);
  return {hn::GetLane(hn::SumOfLanes(d, hn::Add(first_a, first_b))),
          hn::GetLane(hn::SumOfLanes(d, hn::Add(second_a, second_b)))};
}

// The largest of `count` values, -infinity if there is none. NaNs may be lost.
template <class D, typename T>
HWY_INLINE float MaxLanes(D d, const T* x, int64_t count) {
  const int64_t n = hn::Lanes(d);
  const auto least = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto a = least, b = least;
  int64_t i = 0;
  for (; i + 2 * n <= count; i += 2 * n) {
    a = hn::Max(a, AllLanes().Load(d, x + i));
    b = hn::Max(b, AllLanes().Load(d, x + i + n));
  }
  for (; i < count; i += n) {
    const FirstLanes lanes{static_cast<size_t>(count - i)};
    a = hn::Max(a, hn::IfThenElse(hn::FirstN(d, lanes.count), lanes.Load(d, x + i), least));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#endif  // ARMATURE_TENSOR_CPU_LANES_INL_H_
