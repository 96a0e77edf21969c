#include "armature/tensor/cpu/softmax_kernels.h"

#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/softmax_kernels.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/tensor/cpu/lanes-inl.h"
#include "armature/tensor/cpu/transcendental-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void SoftmaxRows(const SoftmaxArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const int64_t cols = args.cols;
  for (int64_t r = begin; r < end; ++r) {
    const T* x = static_cast<const T*>(args.x) + r * cols;
    T* y = static_cast<T*>(args.y) + r * cols;
    const auto max = hn::Set(d, MaxLanes(d, x, cols));
    const float sum = SumLanes(d, cols, [&](int64_t i, auto lanes) HWY_ATTR {
      const auto exponential = lanes.Keep(d, Exp(d, hn::Sub(lanes.Load(d, x + i), max)));
      lanes.Store(exponential, d, y + i);
      return exponential;
    });
    const auto factor = hn::Set(d, 1 / sum);
    ForLanes(d, cols, [&](int64_t i, auto lanes) HWY_ATTR {
      lanes.Store(hn::Mul(lanes.Load(d, y + i), factor), d, y + i);
    });
  }
}

template <typename T>
HWY_INLINE void SoftmaxBackwardRows(const SoftmaxBackwardArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const int64_t cols = args.cols;
  for (int64_t r = begin; r < end; ++r) {
    const T* y = static_cast<const T*>(args.y) + r * cols;
    const T* dy = static_cast<const T*>(args.dy) + r * cols;
    T* dx = static_cast<T*>(args.dx) + r * cols;
    const auto dot = hn::Set(d, SumLanes(d, cols, [&](int64_t i, auto lanes) HWY_ATTR {
                               return hn::Mul(lanes.Load(d, y + i), lanes.Load(d, dy + i));
                             }));
    ForLanes(d, cols, [&](int64_t i, auto lanes) HWY_ATTR {
      auto value = hn::Mul(lanes.Load(d, y + i), hn::Sub(lanes.Load(d, dy + i), dot));
      if (args.accumulate) value = hn::Add(lanes.Load(d, dx + i), value);
      lanes.Store(value, d, dx + i);
    });
  }
}

void SoftmaxF32(const SoftmaxArgs& args, int64_t begin, int64_t end) { SoftmaxRows<float>(args, begin, end); }
void SoftmaxBackwardF32(const SoftmaxBackwardArgs& args, int64_t begin, int64_t end) {
  SoftmaxBackwardRows<float>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {

HWY_EXPORT(SoftmaxF32);
HWY_EXPORT(SoftmaxBackwardF32);

absl::Status Softmax(Stream& stream, const SoftmaxArgs& args) {
  CpuStream::Team(stream).ParallelFor(args.rows, GrainOf(args.cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(SoftmaxF32)(args, begin, end);
  });
  return absl::OkStatus();
}

absl::Status SoftmaxBackward(Stream& stream, const SoftmaxBackwardArgs& args) {
  CpuStream::Team(stream).ParallelFor(args.rows, GrainOf(args.cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(SoftmaxBackwardF32)(args, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
