// MultiplyTile: a small tile of c (+)= a b in registers, of which attention is made.
//
// A tile has up to kTileRows rows, and TileCols() columns. `b` is a panel: its rows lie TileCols() apart,
// aligned and padded with zeros (PackRows, PackTransposed). `a` lies anywhere with constant strides, so that
// neither it nor its transpose need a copy with the other order.
//
// An element of the tile is 0 plus its products in the order of p, each fused (where the processor can), and
// is then written or added to c. So its bits depend on the depth alone, not on the tile that it is part of.
//
// Included once for each Highway target; see hwy/foreach_target.h.
#if defined(ARMATURE_TENSOR_CPU_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ARMATURE_TENSOR_CPU_TILE_PRODUCT_INL_H_
#undef ARMATURE_TENSOR_CPU_TILE_PRODUCT_INL_H_
#else
#define ARMATURE_TENSOR_CPU_TILE_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"

// Accumulators are arrays that become registers only if the loops over them vanish.
#if HWY_COMPILER_GCC_ACTUAL
#define ARMATURE_UNROLL _Pragma("GCC unroll 16")
#else
#define ARMATURE_UNROLL
#endif

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Two vectors a row: 28 accumulators of AVX-512's 32 registers, 12 of the 16 of others.
constexpr int64_t kTileRows = HWY_TARGET <= HWY_AVX3 ? 14 : 6;

HWY_INLINE int64_t TileCols() { return 2 * hn::Lanes(hn::ScalableTag<float>()); }

// c[i, j] (+)= sum over p < depth of a[i * kRowStride + p * kColStride] * b[p, j]; i < kRows,
// j < TileCols().
template <int64_t kRows, int64_t kRowStride, int64_t kColStride>
HWY_NOINLINE void MultiplyRows(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t depth,
                               float* HWY_RESTRICT c, int64_t ldc, bool accumulate) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t n = hn::Lanes(d);
  V low[kRows], high[kRows];
  ARMATURE_UNROLL for (int64_t i = 0; i < kRows; ++i) { low[i] = high[i] = hn::Zero(d); }
  for (int64_t p = 0; p < depth; ++p) {
    const V b_low = hn::Load(d, b), b_high = hn::Load(d, b + n);
    ARMATURE_UNROLL for (int64_t i = 0; i < kRows; ++i) {
      const V factor = hn::Set(d, a[i * kRowStride]);
      low[i] = hn::MulAdd(factor, b_low, low[i]);
      high[i] = hn::MulAdd(factor, b_high, high[i]);
    }
    a += kColStride;
    b += 2 * n;
  }
  ARMATURE_UNROLL for (int64_t i = 0; i < kRows; ++i) {
    float* row = c + i * ldc;
    hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, row), low[i]) : low[i], d, row);
    hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, row + n), high[i]) : high[i], d, row + n);
  }
}

// The same for rows <= kRows.
template <int64_t kRowStride, int64_t kColStride, int64_t kRows = kTileRows>
HWY_INLINE void MultiplyTile(int64_t rows, const float* a, const float* b, int64_t depth, float* c,
                             int64_t ldc, bool accumulate) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      MultiplyRows<kRows, kRowStride, kColStride>(a, b, depth, c, ldc, accumulate);
    } else {
      MultiplyTile<kRowStride, kColStride, kRows - 1>(rows, a, b, depth, c, ldc, accumulate);
    }
  }
}

// b [depth, cols], its rows ldb apart, as a panel.
HWY_INLINE void PackRows(const float* b, int64_t ldb, int64_t depth, int64_t cols,
                         float* HWY_RESTRICT panel) {
  const hn::ScalableTag<float> d;
  const int64_t n = hn::Lanes(d);
  for (int64_t p = 0; p < depth; ++p, b += ldb, panel += 2 * n) {
    if (cols == 2 * n) {
      hn::Store(hn::LoadU(d, b), d, panel);
      hn::Store(hn::LoadU(d, b + n), d, panel + n);
    } else {
      std::fill(std::copy_n(b, cols, panel), panel + 2 * n, 0.0f);
    }
  }
}

// Columns [j, j + 4) of a panel from four rows of b [cols, depth].
HWY_INLINE void PackFourColumns(const float* b, int64_t ldb, int64_t depth, float* HWY_RESTRICT panel) {
  const int64_t width = TileCols();
  const float *b0 = b, *b1 = b + ldb, *b2 = b + 2 * ldb, *b3 = b + 3 * ldb;
  int64_t p = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto as_pairs = [&](auto v) HWY_ATTR { return hn::BitCast(pairs, v); };
  const auto store = [&](auto v, float* to) HWY_ATTR { hn::StoreU(hn::BitCast(d, v), d, to); };
  for (; p + 4 <= depth; p += 4) {
    const auto x0 = hn::LoadU(d, b0 + p), x1 = hn::LoadU(d, b1 + p);
    const auto x2 = hn::LoadU(d, b2 + p), x3 = hn::LoadU(d, b3 + p);
    const auto low01 = as_pairs(hn::InterleaveLower(d, x0, x1)),
               low23 = as_pairs(hn::InterleaveLower(d, x2, x3));
    const auto high01 = as_pairs(hn::InterleaveUpper(d, x0, x1)),
               high23 = as_pairs(hn::InterleaveUpper(d, x2, x3));
    float* to = panel + p * width;
    store(hn::InterleaveLower(pairs, low01, low23), to);
    store(hn::InterleaveUpper(pairs, low01, low23), to + width);
    store(hn::InterleaveLower(pairs, high01, high23), to + 2 * width);
    store(hn::InterleaveUpper(pairs, high01, high23), to + 3 * width);
  }
#endif
  for (; p < depth; ++p) {
    float* to = panel + p * width;
    to[0] = b0[p], to[1] = b1[p], to[2] = b2[p], to[3] = b3[p];
  }
}

// The transpose of b [cols, depth] as a panel.
HWY_INLINE void PackTransposed(const float* b, int64_t ldb, int64_t depth, int64_t cols,
                               float* HWY_RESTRICT panel) {
  const int64_t width = TileCols();
  int64_t j = 0;
  for (; j + 4 <= cols; j += 4) PackFourColumns(b + j * ldb, ldb, depth, panel + j);
  for (; j < width; ++j) {
    for (int64_t p = 0; p < depth; ++p) panel[p * width + j] = j < cols ? b[j * ldb + p] : 0;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#endif  // ARMATURE_TENSOR_CPU_TILE_PRODUCT_INL_H_
