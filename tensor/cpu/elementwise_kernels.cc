#include "armature/tensor/cpu/elementwise_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"
#include "armature/tensor/float16.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/elementwise_kernels.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/tensor/cpu/lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void AxpbyRange(const AxpbyArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const T* a = static_cast<const T*>(args.a);
  const T* b = static_cast<const T*>(args.b);
  T* y = static_cast<T*>(args.y) + begin;
  const auto alpha = hn::Set(d, static_cast<float>(args.alpha));
  const auto beta = hn::Set(d, static_cast<float>(args.beta));
  ForLanes(d, end - begin, [&](int64_t i, auto lanes) HWY_ATTR {
    const auto scaled = hn::Mul(alpha, lanes.Load(d, a + begin + i));
    lanes.Store(b != nullptr ? hn::MulAdd(beta, lanes.Load(d, b + begin + i), scaled) : scaled, d, y + i);
  });
}

template <typename T>
HWY_INLINE void MultiplyRange(const MultiplyArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const T* a = static_cast<const T*>(args.a) + begin;
  const T* b = static_cast<const T*>(args.b) + (args.scalar_b ? 0 : begin);
  T* y = static_cast<T*>(args.y) + begin;
  const auto scalar = hn::Set(d, args.scalar_b ? static_cast<float>(b[0]) : 0.0f);
  ForLanes(d, end - begin, [&](int64_t i, auto lanes) HWY_ATTR {
    const auto factor = args.scalar_b ? scalar : lanes.Load(d, b + i);
    auto product = hn::Mul(lanes.Load(d, a + i), factor);
    if (args.accumulate) product = hn::Add(lanes.Load(d, y + i), product);
    lanes.Store(product, d, y + i);
  });
}

template <typename T>
HWY_INLINE double SumRange(const T* x, int64_t count) {
  constexpr int64_t kBlock = 4096;
  const hn::ScalableTag<float> d;
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const T* block = x + begin;
    sum += SumLanes(d, std::min(kBlock, count - begin),
                    [&](int64_t i, auto lanes) HWY_ATTR { return lanes.Load(d, block + i); });
  }
  return sum;
}

void AxpbyF32(const AxpbyArgs& args, int64_t begin, int64_t end) { AxpbyRange<float>(args, begin, end); }
void MultiplyF32(const MultiplyArgs& args, int64_t begin, int64_t end) {
  MultiplyRange<float>(args, begin, end);
}
double SumF32(const float* x, int64_t count) { return SumRange(x, count); }

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {
namespace {

HWY_EXPORT(AxpbyF32);
HWY_EXPORT(MultiplyF32);
HWY_EXPORT(SumF32);

constexpr int64_t kMaxSegments = 1024;
constexpr int64_t kMinSegment = 4096;

template <typename T>
void FillWith(ThreadTeam& team, const FillArgs& args, T value) {
  T* y = static_cast<T*>(args.y);
  team.ParallelFor(args.count, kElementGrain,
                   [&](int64_t begin, int64_t end) { std::fill(y + begin, y + end, value); });
}

}  // namespace

absl::Status Axpby(Stream& stream, const AxpbyArgs& args) {
  CpuStream::Team(stream).ParallelFor(args.count, kElementGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(AxpbyF32)(args, begin, end);
  });
  return absl::OkStatus();
}

absl::Status Multiply(Stream& stream, const MultiplyArgs& args) {
  CpuStream::Team(stream).ParallelFor(args.count, kElementGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(MultiplyF32)(args, begin, end);
  });
  return absl::OkStatus();
}

absl::Status Sum(Stream& stream, const SumArgs& args) {
  const float* x = static_cast<const float*>(args.x);
  float* out = static_cast<float*>(args.out);
  // Segments of whole blocks, whose number and length the count alone fixes.
  const int64_t blocks = (args.count + kMinSegment - 1) / kMinSegment;
  const int64_t length = (blocks + kMaxSegments - 1) / kMaxSegments * kMinSegment;
  const int64_t segments = length == 0 ? 0 : (args.count + length - 1) / length;
  double sums[kMaxSegments];
  CpuStream::Team(stream).ParallelFor(segments, GrainOf(length), [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      sums[s] = HWY_DYNAMIC_DISPATCH(SumF32)(x + s * length, std::min(length, args.count - s * length));
    }
  });
  double sum = args.accumulate ? *out : 0;
  for (int64_t s = 0; s < segments; ++s) sum += sums[s];
  *out = static_cast<float>(sum);
  return absl::OkStatus();
}

absl::Status Fill(Stream& stream, const FillArgs& args) {
  ThreadTeam& team = CpuStream::Team(stream);
  const float value = static_cast<float>(args.value);
  switch (args.dtype) {
    case DType::kF32:
      FillWith(team, args, value);
      break;
    case DType::kF64:
      FillWith(team, args, args.value);
      break;
    case DType::kF16:
      FillWith(team, args, Float16(value));
      break;
    case DType::kBF16:
      FillWith(team, args, BFloat16(value));
      break;
    default:
      return absl::InternalError(absl::StrCat("fill was called on ", Name(args.dtype)));
  }
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
