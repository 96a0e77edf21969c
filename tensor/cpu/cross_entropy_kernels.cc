#include "armature/tensor/cpu/cross_entropy_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/cross_entropy_kernels.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "hwy/cache_control.h"
#include "armature/tensor/cpu/lanes-inl.h"
#include "armature/tensor/cpu/transcendental-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kBlock = 2048;  // elements, 8 KiB

// A row's sums, as far as it was read: of exp(x - max), and of x.
struct RowSums {
  float max = -std::numeric_limits<float>::infinity();
  double exponentials = 0;
  double values = 0;
};

template <typename T>
HWY_INLINE RowSums SumRow(const T* x, int64_t count, bool with_values) {
  const hn::ScalableTag<float> d;
  RowSums row;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const T* block = x + begin;
    const int64_t size = std::min(kBlock, count - begin);
    const float block_max = MaxLanes(d, block, size);
    if (block_max > row.max) {
      if (row.exponentials != 0) row.exponentials *= std::exp(static_cast<double>(row.max) - block_max);
      row.max = block_max;
    }
    // Where all values so far are -infinity, their exponentials are 0 for any shift but that.
    const auto shift = hn::Set(d, std::max(row.max, std::numeric_limits<float>::lowest()));
    row.exponentials += SumLanes(d, size, [&](int64_t i, auto lanes) HWY_ATTR {
      hwy::Prefetch(block + kBlock + i);  // the next maximum finds its block in the cache
      return lanes.Keep(d, Exp(d, hn::Sub(lanes.Load(d, block + i), shift)));
    });
    if (with_values) {
      row.values +=
          SumLanes(d, size, [&](int64_t i, auto lanes) HWY_ATTR { return lanes.Load(d, block + i); });
    }
  }
  return row;
}

template <typename T>
HWY_INLINE void CrossEntropyRows(const CrossEntropyArgs& args, int64_t begin, int64_t end) {
  const double smoothing = args.smoothing, classes = static_cast<double>(args.classes);
  for (int64_t r = begin; r < end; ++r) {
    const T* x = static_cast<const T*>(args.logits) + r * args.stride;
    const RowSums row = SumRow(x, args.classes, smoothing > 0);
    const double log_sum = std::log(row.exponentials), max = row.max;
    static_cast<float*>(args.lse)[r] = static_cast<float>(max + log_sum);

    const int32_t target = args.targets[r];
    double loss = std::numeric_limits<double>::quiet_NaN();
    if (target == kIgnoredTarget) {
      loss = 0;
    } else if (target >= 0 && target < args.classes) {
      loss = (1 - smoothing) * (log_sum - (static_cast<float>(x[target]) - max));
      if (smoothing > 0) loss += smoothing * (log_sum - (row.values / classes - max));
    }
    static_cast<float*>(args.losses)[r] = static_cast<float>(loss);
  }
}

template <typename T>
HWY_INLINE void CrossEntropyPartRows(const CrossEntropyPartArgs& args, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* x = static_cast<const T*>(args.logits) + r * args.stride;
    const RowSums row = SumRow(x, args.classes, args.with_sum);
    const int64_t target = args.targets[r] - args.first_class;
    double* statistics = args.statistics + r * kCrossEntropyStatistics;
    statistics[0] = row.max;
    statistics[1] = row.exponentials;
    statistics[2] = target >= 0 && target < args.classes ? static_cast<float>(x[target]) : 0;
    statistics[3] = row.values;
  }
}

template <typename T>
HWY_INLINE void CrossEntropyBackwardRows(const CrossEntropyBackwardArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const float dloss = *static_cast<const float*>(args.dloss);
  const int64_t all_classes = args.all_classes > 0 ? args.all_classes : args.classes;
  const double spread = all_classes == 0 ? 0 : args.smoothing / static_cast<double>(all_classes);
  for (int64_t r = begin; r < end; ++r) {
    const T* x = static_cast<const T*>(args.logits) + r * args.stride;
    T* dx = static_cast<T*>(args.dlogits) + r * args.stride;
    const bool ignored = args.targets[r] == kIgnoredTarget;
    const int64_t classes = ignored ? 0 : args.classes;
    const bool is_class = args.targets[r] >= 0 && args.targets[r] < all_classes;
    const int64_t target = args.targets[r] - args.first_class;
    const bool is_here = !ignored && target >= 0 && target < classes;
    const float factor = is_class ? dloss : std::numeric_limits<float>::quiet_NaN();
    const double lse = static_cast<const float*>(args.lse)[r];
    // Taken before the row, which may be the same memory, is overwritten.
    const double at_target = is_here ? std::exp(static_cast<float>(x[target]) - lse) : 0;

    const auto v_factor = hn::Set(d, factor), v_lse = hn::Set(d, static_cast<float>(lse));
    const auto v_spread = hn::Set(d, static_cast<float>(spread));
    ForLanes(d, classes, [&](int64_t i, auto lanes) HWY_ATTR {
      const auto p = Exp(d, hn::Sub(lanes.Load(d, x + i), v_lse));
      lanes.Store(hn::Mul(v_factor, hn::Sub(p, v_spread)), d, dx + i);
    });
    std::fill(dx + classes, dx + args.stride, T(0));
    if (is_here) dx[target] = T(static_cast<float>(dloss * (at_target - spread - (1 - args.smoothing))));
  }
}

void CrossEntropyF32(const CrossEntropyArgs& args, int64_t begin, int64_t end) {
  CrossEntropyRows<float>(args, begin, end);
}
void CrossEntropyPartF32(const CrossEntropyPartArgs& args, int64_t begin, int64_t end) {
  CrossEntropyPartRows<float>(args, begin, end);
}
void CrossEntropyBackwardF32(const CrossEntropyBackwardArgs& args, int64_t begin, int64_t end) {
  CrossEntropyBackwardRows<float>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {

HWY_EXPORT(CrossEntropyF32);
HWY_EXPORT(CrossEntropyPartF32);
HWY_EXPORT(CrossEntropyBackwardF32);

absl::Status CrossEntropy(Stream& stream, const CrossEntropyArgs& args) {
  CpuStream::Team(stream).ParallelFor(args.rows, GrainOf(args.stride), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(CrossEntropyF32)(args, begin, end);
  });
  return absl::OkStatus();
}

absl::Status CrossEntropyPart(Stream& stream, const CrossEntropyPartArgs& args) {
  CpuStream::Team(stream).ParallelFor(args.rows, GrainOf(args.stride), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(CrossEntropyPartF32)(args, begin, end);
  });
  return absl::OkStatus();
}

absl::Status CrossEntropyBackward(Stream& stream, const CrossEntropyBackwardArgs& args) {
  CpuStream::Team(stream).ParallelFor(args.rows, GrainOf(args.stride), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(CrossEntropyBackwardF32)(args, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
