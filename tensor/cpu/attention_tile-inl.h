// What attention's forward and backward share: a block of queries against a tile of keys.
//
//   scores [kQueries, kKeys], rows kTileStride apart. Its rows come in groups of kTileRows, and a group
//   computes only the keys that its last query may see by order.
//
// Included once for each Highway target; see hwy/foreach_target.h.
#if defined(ARMATURE_TENSOR_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ARMATURE_TENSOR_CPU_ATTENTION_TILE_INL_H_
#undef ARMATURE_TENSOR_CPU_ATTENTION_TILE_INL_H_
#else
#define ARMATURE_TENSOR_CPU_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "armature/tensor/cpu/lanes-inl.h"
#include "armature/tensor/cpu/philox-inl.h"
#include "armature/tensor/cpu/tile_product-inl.h"
#include "armature/tensor/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kQueries = (HWY_TARGET <= HWY_AVX3 ? 4 : 10) * kTileRows;
constexpr int64_t kKeys = 128;
constexpr int64_t kTileStride = kKeys + 16;  // no power of 2, which would crowd rows in few cache sets
constexpr float kHidden = -std::numeric_limits<float>::infinity();

HWY_INLINE int64_t PaddedDim(int64_t dim) { return (dim + TileCols() - 1) / TileCols() * TileCols(); }

// Elements of `count` rows packed by PackHeadRows.
HWY_INLINE int64_t HeadRowsSize(int64_t dim) { return (dim + kKeys - 1) / kKeys * kQueries * kTileStride; }

// factor * rows [count, dim] for products over dim: columns in chunks of kKeys, a chunk's rows kTileStride
// apart.
HWY_INLINE void PackHeadRows(const float* rows, int64_t stride, int64_t count, int64_t dim, float factor,
                             float* packed) {
  const hn::ScalableTag<float> d;
  const auto v_factor = hn::Set(d, factor);
  for (int64_t c = 0; c < dim; c += kKeys, packed += kQueries * kTileStride) {
    for (int64_t i = 0; i < count; ++i) {
      ForLanes(d, std::min(kKeys, dim - c), [&](int64_t x, auto lanes) HWY_ATTR {
        lanes.Store(hn::Mul(lanes.Load(d, rows + i * stride + c + x), v_factor), d,
                    packed + i * kTileStride + x);
      });
    }
  }
}

// b [count, dim] as panels of TileCols() columns, for products over its rows. The panel of column c is at c *
// count.
HWY_INLINE void PackHeadPanels(const float* b, int64_t stride, int64_t count, int64_t dim, float* panels) {
  for (int64_t c = 0; c < dim; c += TileCols()) {
    PackRows(b + c, stride, count, std::min(TileCols(), dim - c), panels + c * count);
  }
}

// b [count, dim] as panels of TileCols() rows, for products over dim. The panel of row j is at j * dim.
HWY_INLINE void PackHeadTransposed(const float* b, int64_t stride, int64_t count, int64_t dim,
                                   float* panels) {
  for (int64_t j = 0; j < count; j += TileCols()) {
    PackTransposed(b + j * stride, stride, dim, std::min(TileCols(), count - j), panels + j * dim);
  }
}

// scores[i, j] = packed row i times row j of the transposed panels, for j < keys and the rest of that panel.
HWY_INLINE void MultiplyByKeys(const float* packed, const float* panels, int64_t dim, int64_t rows,
                               int64_t keys, float* scores) {
  for (int64_t j = 0; j < keys; j += TileCols()) {
    for (int64_t p = 0; p == 0 || p < dim; p += kKeys) {
      MultiplyTile<kTileStride, 1>(rows, packed + p / kKeys * kQueries * kTileStride,
                                   panels + j * dim + p * TileCols(), std::min(kKeys, dim - p), scores + j,
                                   kTileStride, p > 0);
    }
  }
}

// sums[i, c] += sum over keys of weights[i, key] b[key, c], where b's panels have `count` rows of which
// `panels` shows the tile's first.
HWY_INLINE void AddWeightedRows(const float* weights, const float* panels, int64_t count, int64_t dim,
                                int64_t rows, int64_t keys, float* sums) {
  for (int64_t c = 0; c < dim; c += TileCols()) {
    MultiplyTile<kTileStride, 1>(rows, weights, panels + c * count, keys, sums + c, PaddedDim(dim), true);
  }
}

// Sets what a query does not see to kHidden: keys from `seen` on, and those of other segments.
HWY_INLINE void HideKeys(float* scores, int64_t width, int64_t seen, const int32_t* segment,
                         const int32_t* key_segments) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const int64_t n = hn::Lanes(d);
  for (int64_t j = 0; j < width; j += n) {
    auto visible = hn::FirstN(d, std::clamp<int64_t>(seen - j, 0, n));
    if (segment != nullptr) {
      const auto in = hn::FirstN(di, std::clamp<int64_t>(seen - j, 0, n));
      const auto same = hn::Eq(hn::MaskedLoad(in, di, key_segments + j), hn::Set(di, *segment));
      visible = hn::And(visible, hn::RebindMask(d, same));
    }
    hn::StoreU(hn::IfThenElse(visible, hn::LoadU(d, scores + j), hn::Set(d, kHidden)), d, scores + j);
  }
}

// One sample and head of an attention: whom a query sees, and what dropout keeps.
class HeadMask {
 public:
  HeadMask(const AttentionShape& shape, int64_t sample, int64_t head)
      : shape_(shape), sample_(sample), head_(head) {
    // word >> 8 is an integer, so that it reaches p * 2^24 where it reaches the next integer.
    threshold_ = static_cast<int32_t>(std::ceil(shape.dropout * 0x1p24));
    scale_ = shape.dropout < 1 ? static_cast<float>(1 / (1 - shape.dropout)) : 0;
  }

  // Keys that query i may see by order; those before are the ones that matter.
  int64_t Limit(int64_t i) const {
    if (!shape_.causal) return shape_.kv_len;
    return std::clamp<int64_t>(i + 1 + shape_.kv_len - shape_.q_len, 0, shape_.kv_len);
  }

  // Hides from query i what it does not see of keys [first, first + width); width is a multiple of a vector.
  HWY_INLINE void Hide(int64_t i, int64_t first, int64_t width, float* scores) const {
    const int64_t seen = Limit(i) - first;
    if (shape_.q_segments == nullptr) {
      if (seen < width) HideKeys(scores, width, seen, nullptr, nullptr);
      return;
    }
    HideKeys(scores, width, seen, shape_.q_segments + sample_ * shape_.q_len + i,
             shape_.kv_segments + sample_ * shape_.kv_len + first);
  }

  bool has_dropout() const { return shape_.dropout > 0; }

  // The factors of query i's keys [first, first + width): 0 or 1 / (1 - p).
  HWY_INLINE void DropoutFactors(int64_t i, int64_t first, int64_t width, float* factors) const {
    const hn::ScalableTag<float> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const hn::RebindToSigned<decltype(d)> di;
    const int64_t n = hn::Lanes(d);
    const uint64_t element = ((shape_.head_offset + head_) * shape_.q_len + i) * shape_.kv_len + first;
    uint32_t words[RandomBufferSize(kKeys)];
    RandomWords(shape_.random_key, shape_.first_sample + sample_, element, width, words);
    for (int64_t j = 0; j < width; j += n) {
      const auto upper = hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(du, words + element % 4 + j)));
      const auto dropped = hn::RebindMask(d, hn::Lt(upper, hn::Set(di, threshold_)));
      hn::StoreU(hn::IfThenZeroElse(dropped, hn::Set(d, scale_)), d, factors + j);
    }
  }

 private:
  const AttentionShape& shape_;
  const int64_t sample_, head_;
  int32_t threshold_;
  float scale_;
};

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#endif  // ARMATURE_TENSOR_CPU_ATTENTION_TILE_INL_H_
