#include "armature/tensor/cpu/column_sum_kernels.h"

#include <algorithm>

#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/column_sum_kernels.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/tensor/cpu/lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kBlockRows = 32;
constexpr int64_t kBlockCols = 512;  // two arrays of sums stay in the first-level cache

// sums[c] = sum of x[r * stride + c] over `rows` rows, four at a time.
template <typename T>
HWY_INLINE void SumBlock(const T* x, int64_t stride, int64_t rows, int64_t cols, float* sums) {
  const hn::ScalableTag<float> d;
  std::fill_n(sums, cols, 0.0f);
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* row = x + r * stride;
    ForLanes(d, cols, [&](int64_t c, auto lanes) HWY_ATTR {
      const auto low = hn::Add(lanes.Load(d, row + c), lanes.Load(d, row + stride + c));
      const auto high = hn::Add(lanes.Load(d, row + 2 * stride + c), lanes.Load(d, row + 3 * stride + c));
      lanes.Store(hn::Add(lanes.Load(d, sums + c), hn::Add(low, high)), d, sums + c);
    });
  }
  for (; r < rows; ++r) {
    ForLanes(d, cols, [&](int64_t c, auto lanes) HWY_ATTR {
      lanes.Store(hn::Add(lanes.Load(d, sums + c), lanes.Load(d, x + r * stride + c)), d, sums + c);
    });
  }
}

// Columns [begin, end).
template <typename T>
HWY_INLINE void ColumnSumRange(const ColumnSumArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const T* x = static_cast<const T*>(args.x);
  float* out = static_cast<float*>(args.out);
  for (int64_t col = begin; col < end; col += kBlockCols) {
    const int64_t cols = std::min(kBlockCols, end - col);
    float block[kBlockCols], total[kBlockCols];
    std::fill_n(total, cols, 0.0f);
    for (int64_t row = 0; row < args.rows; row += kBlockRows) {
      SumBlock(x + row * args.cols + col, args.cols, std::min(kBlockRows, args.rows - row), cols, block);
      ForLanes(d, cols, [&](int64_t c, auto lanes) HWY_ATTR {
        lanes.Store(hn::Add(lanes.Load(d, total + c), lanes.Load(d, block + c)), d, total + c);
      });
    }
    ForLanes(d, cols, [&](int64_t c, auto lanes) HWY_ATTR {
      auto sum = lanes.Load(d, total + c);
      if (args.accumulate) sum = hn::Add(lanes.Load(d, out + col + c), sum);
      lanes.Store(sum, d, out + col + c);
    });
  }
}

void ColumnSumF32(const ColumnSumArgs& args, int64_t begin, int64_t end) {
  ColumnSumRange<float>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {

HWY_EXPORT(ColumnSumF32);

absl::Status ColumnSum(Stream& stream, const ColumnSumArgs& args) {
  const int64_t groups = (args.cols + kColumnGroup - 1) / kColumnGroup;
  const int64_t grain = GrainOf(args.rows * kColumnGroup);
  CpuStream::Team(stream).ParallelFor(groups, grain, [&](int64_t begin, int64_t end) {
    const int64_t end_col = std::min(args.cols, end * kColumnGroup);
    HWY_DYNAMIC_DISPATCH(ColumnSumF32)(args, begin * kColumnGroup, end_col);
  });
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
