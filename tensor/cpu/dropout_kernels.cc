#include "armature/tensor/cpu/dropout_kernels.h"

#include <cmath>

#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"
#include "armature/tensor/cpu/random_runs.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/dropout_kernels.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/tensor/cpu/lanes-inl.h"
#include "armature/tensor/cpu/philox-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kRun = 1024;  // elements whose random words are made at a time

// y = residual + keep x scale for `count` elements; an element is kept where the upper 24 bits of its word
// are at least `threshold`.
template <typename T>
HWY_INLINE void DropoutRun(const DropoutArgs& args, int64_t offset, int64_t count, const uint32_t* words,
                           uint32_t threshold, float scale) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const T* x = static_cast<const T*>(args.x) + offset;
  const T* residual = args.residual == nullptr ? nullptr : static_cast<const T*>(args.residual) + offset;
  T* y = static_cast<T*>(args.y) + offset;
  const auto v_scale = hn::Set(d, scale);
  const auto v_threshold = hn::Set(di, static_cast<int32_t>(threshold));
  ForLanes(d, count, [&](int64_t i, auto lanes) HWY_ATTR {
    const auto upper = hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(du, words + i)));
    const auto dropped = hn::RebindMask(d, hn::Lt(upper, v_threshold));
    auto value = hn::IfThenZeroElse(dropped, hn::Mul(lanes.Load(d, x + i), v_scale));
    if (residual != nullptr) value = hn::Add(lanes.Load(d, residual + i), value);
    if (args.accumulate) value = hn::Add(lanes.Load(d, y + i), value);
    lanes.Store(value, d, y + i);
  });
}

template <typename T>
HWY_INLINE void DropoutRange(const DropoutArgs& args, int64_t begin, int64_t end) {
  // word >> 8 is an integer, so that it reaches p * 2^24 where it reaches the next integer.
  const uint32_t threshold = static_cast<uint32_t>(std::ceil(args.p * 0x1p24));
  const float scale = args.p < 1 ? static_cast<float>(1 / (1 - args.p)) : 0;
  uint32_t words[RandomBufferSize(kRun)];
  ForRandomRuns(args.region, begin, end, kRun,
                [&](int64_t offset, int64_t count, int64_t sample, int64_t element) HWY_ATTR {
                  RandomWords(args.region.key, sample, element, count, words);
                  DropoutRun<T>(args, offset, count, words + element % 4, threshold, scale);
                });
}

void DropoutF32(const DropoutArgs& args, int64_t begin, int64_t end) {
  DropoutRange<float>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {

HWY_EXPORT(DropoutF32);

absl::Status Dropout(Stream& stream, const DropoutArgs& args) {
  const int64_t count = args.samples * args.region.rows * args.region.cols;
  CpuStream::Team(stream).ParallelFor(count, kElementGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(DropoutF32)(args, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
