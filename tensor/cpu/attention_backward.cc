// With P = exp(scale q k - lse) and M the dropout factors, for a block of queries and a tile of keys:
//   dS = P (M (dout v) - rowsum(dout out)),  dv += (M P)^T dout,  dk += dS^T (scale q),  dq += scale dS k
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "armature/tensor/cpu/attention_kernels.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"
#include "hwy/aligned_allocator.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/attention_backward.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/tensor/cpu/attention_tile-inl.h"
#include "armature/tensor/cpu/transcendental-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

// A thread's memory: all of one key head, and one block of queries. Null memory only measures.
struct BackwardWorkspace {
  BackwardWorkspace(const AttentionShape& shape, float* memory) {
    const int64_t padded = PaddedDim(shape.dim), head = shape.kv_len * padded, block = kQueries * padded;
    const auto take = [&](int64_t count) {
      float* taken = memory == nullptr ? nullptr : memory + size;
      size += count;
      return taken;
    };
    keys_transposed = take(PaddedDim(shape.kv_len) * shape.dim);
    values_transposed = take(PaddedDim(shape.kv_len) * shape.dim);
    keys = take(head);
    dk = take(head);
    dv = take(head);
    q_rows = take(HeadRowsSize(shape.dim));
    dout_rows = take(HeadRowsSize(shape.dim));
    q_panels = take(block);
    dout_panels = take(block);
    dq = take(block);
    weights = take(kQueries * kTileStride);
    dscores = take(kQueries * kTileStride);
  }

  float *keys_transposed, *values_transposed, *keys;  // panels
  float *dk, *dv;                                     // sums, [kv_len, PaddedDim]
  float *q_rows, *dout_rows;                          // packed rows; q is scaled
  float *q_panels, *dout_panels;
  float* dq;                 // sums, [kQueries, PaddedDim]
  float *weights, *dscores;  // tiles: scores, then M P; dout v, then dS
  int64_t size = 0;
};

// A block of queries of one sample and head.
struct QueryBlock {
  int64_t sample, head, query, rows;
  float lse[kQueries];  // +infinity where no key is seen: its probabilities become 0
  float dout_dot_out[kQueries];
};

HWY_INLINE int64_t QueryOffset(const AttentionShape& shape, const QueryBlock& block, int64_t stride) {
  return (block.sample * shape.q_len + block.query) * stride + block.head * shape.dim;
}

HWY_INLINE void LoadBlock(const AttentionBackwardArgs& args, const BackwardWorkspace& at, QueryBlock& block) {
  const hn::ScalableTag<float> d;
  const AttentionShape& shape = args.shape;
  const float* q = static_cast<const float*>(args.q) + QueryOffset(shape, block, shape.q_stride);
  const float* out = static_cast<const float*>(args.out) + QueryOffset(shape, block, shape.out_stride);
  const float* dout = static_cast<const float*>(args.dout) + QueryOffset(shape, block, shape.out_stride);
  PackHeadRows(q, shape.q_stride, block.rows, shape.dim, static_cast<float>(shape.scale), at.q_rows);
  PackHeadRows(dout, shape.out_stride, block.rows, shape.dim, 1, at.dout_rows);
  for (int64_t c = 0; c < shape.dim; c += kKeys) {
    const int64_t chunk = c / kKeys * kQueries * kTileStride, columns = std::min(kKeys, shape.dim - c);
    PackHeadPanels(at.q_rows + chunk, kTileStride, block.rows, columns, at.q_panels + c * block.rows);
    PackHeadPanels(at.dout_rows + chunk, kTileStride, block.rows, columns, at.dout_panels + c * block.rows);
  }
  const float* lse =
      static_cast<const float*>(args.lse) + (block.sample * shape.heads + block.head) * shape.q_len;
  for (int64_t i = 0; i < block.rows; ++i) {
    const float value = lse[block.query + i];
    block.lse[i] = value == kHidden ? -kHidden : value;
    const float *x = dout + i * shape.out_stride, *y = out + i * shape.out_stride;
    block.dout_dot_out[i] = SumLanes(d, shape.dim, [&](int64_t c, auto lanes) HWY_ATTR {
      return hn::Mul(lanes.Load(d, x + c), lanes.Load(d, y + c));
    });
  }
  std::fill_n(at.dq, block.rows * PaddedDim(shape.dim), 0.0f);
}

// Query `row` of the block: scores become M P, and dout v becomes dS.
HWY_INLINE void DifferentiateRow(const HeadMask& mask, const QueryBlock& block, int64_t row, int64_t first,
                                 int64_t width, float* scores, float* dscores) {
  const hn::ScalableTag<float> d;
  const int64_t n = hn::Lanes(d);
  mask.Hide(block.query + row, first, width, scores);
  HWY_ALIGN float factors[kKeys];
  if (mask.has_dropout()) mask.DropoutFactors(block.query + row, first, width, factors);
  const auto lse = hn::Set(d, block.lse[row]), dot = hn::Set(d, block.dout_dot_out[row]);
  for (int64_t j = 0; j < width; j += n) {
    const auto p = Exp(d, hn::Sub(hn::Load(d, scores + j), lse));
    auto kept = p, dp = hn::Load(d, dscores + j);
    if (mask.has_dropout()) {
      const auto factor = hn::Load(d, factors + j);
      kept = hn::Mul(p, factor);
      dp = hn::Mul(dp, factor);
    }
    hn::Store(kept, d, scores + j);
    hn::Store(hn::Mul(p, hn::Sub(dp, dot)), d, dscores + j);
  }
}

// Adds a tile of keys to dq, dk and dv.
HWY_INLINE void DifferentiateTile(const AttentionShape& shape, const HeadMask& mask, const QueryBlock& block,
                                  int64_t first, int64_t keys, const BackwardWorkspace& at) {
  const int64_t n = hn::Lanes(hn::ScalableTag<float>());
  const int64_t padded = PaddedDim(shape.dim);
  const auto visible = [&](int64_t row) {
    return std::min(keys, mask.Limit(block.query + std::min(row + kTileRows, block.rows) - 1) - first);
  };
  for (int64_t row = 0; row < block.rows; row += kTileRows) {
    const int64_t rows = std::min(kTileRows, block.rows - row), seen = visible(row);
    if (seen <= 0) continue;
    const int64_t width = (seen + n - 1) / n * n;
    float *scores = at.weights + row * kTileStride, *dscores = at.dscores + row * kTileStride;
    MultiplyByKeys(at.q_rows + row * kTileStride, at.keys_transposed + first * shape.dim, shape.dim, rows,
                   seen, scores);
    MultiplyByKeys(at.dout_rows + row * kTileStride, at.values_transposed + first * shape.dim, shape.dim,
                   rows, seen, dscores);
    for (int64_t i = 0; i < rows; ++i, scores += kTileStride, dscores += kTileStride) {
      DifferentiateRow(mask, block, row + i, first, width, scores, dscores);
      if (width >= keys) continue;
      std::fill(scores + width, scores + keys, 0.0f);
      std::fill(dscores + width, dscores + keys, 0.0f);
    }
    AddWeightedRows(at.dscores + row * kTileStride, at.keys + first * TileCols(), shape.kv_len, shape.dim,
                    rows, seen, at.dq + row * padded);
  }
  int64_t row = 0;  // the first that sees the key
  for (int64_t key = 0; key < keys; key += kTileRows) {
    while (row < block.rows && visible(row) <= key) row += kTileRows;
    if (row >= block.rows) break;
    const int64_t rows = std::min(kTileRows, keys - key), depth = block.rows - row;
    const int64_t weights = row * kTileStride + key, sums = (first + key) * padded;
    for (int64_t c = 0; c < shape.dim; c += TileCols()) {
      const int64_t panel = c * block.rows + row * TileCols();
      MultiplyTile<1, kTileStride>(rows, at.weights + weights, at.dout_panels + panel, depth,
                                   at.dv + sums + c, padded, true);
      MultiplyTile<1, kTileStride>(rows, at.dscores + weights, at.q_panels + panel, depth, at.dk + sums + c,
                                   padded, true);
    }
  }
}

// to [rows, dim] = factor * sums.
HWY_INLINE void WriteSums(const float* sums, int64_t rows, int64_t dim, float factor, float* to,
                          int64_t stride) {
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < rows; ++i, to += stride, sums += PaddedDim(dim)) {
    ForLanes(d, dim, [&](int64_t c, auto lanes) HWY_ATTR {
      lanes.Store(hn::Mul(hn::Load(d, sums + c), hn::Set(d, factor)), d, to + c);
    });
  }
}

// All gradients of one sample and key head.
HWY_INLINE void DifferentiateHead(const AttentionBackwardArgs& args, int64_t sample, int64_t kv_head,
                                  const BackwardWorkspace& at) {
  const AttentionShape& shape = args.shape;
  const int64_t k_offset = sample * shape.kv_len * shape.k_stride + kv_head * shape.dim;
  const int64_t v_offset = sample * shape.kv_len * shape.v_stride + kv_head * shape.dim;
  const float* k = static_cast<const float*>(args.k) + k_offset;
  const float* v = static_cast<const float*>(args.v) + v_offset;
  PackHeadTransposed(k, shape.k_stride, shape.kv_len, shape.dim, at.keys_transposed);
  PackHeadTransposed(v, shape.v_stride, shape.kv_len, shape.dim, at.values_transposed);
  PackHeadPanels(k, shape.k_stride, shape.kv_len, shape.dim, at.keys);
  std::fill_n(at.dk, shape.kv_len * PaddedDim(shape.dim), 0.0f);
  std::fill_n(at.dv, shape.kv_len * PaddedDim(shape.dim), 0.0f);
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const HeadMask mask(shape, sample, head);
    for (int64_t query = 0; query < shape.q_len; query += kQueries) {
      QueryBlock block{sample, head, query, std::min(kQueries, shape.q_len - query), {}, {}};
      LoadBlock(args, at, block);
      const int64_t last = mask.Limit(query + block.rows - 1);
      for (int64_t first = 0; first < last; first += kKeys) {
        DifferentiateTile(shape, mask, block, first, std::min(kKeys, last - first), at);
      }
      WriteSums(at.dq, block.rows, shape.dim, static_cast<float>(shape.scale),
                static_cast<float*>(args.dq) + QueryOffset(shape, block, shape.q_stride), shape.q_stride);
    }
  }
  WriteSums(at.dk, shape.kv_len, shape.dim, 1, static_cast<float*>(args.dk) + k_offset, shape.k_stride);
  WriteSums(at.dv, shape.kv_len, shape.dim, 1, static_cast<float*>(args.dv) + v_offset, shape.v_stride);
}

// Key heads [begin, end) of the list (sample, key head).
void DifferentiateHeads(const AttentionBackwardArgs& args, int64_t begin, int64_t end, float* memory) {
  const BackwardWorkspace at(args.shape, memory);
  for (int64_t index = begin; index < end; ++index) {
    DifferentiateHead(args, index / args.shape.kv_heads, index % args.shape.kv_heads, at);
  }
}

// Elements, a multiple of a cache line.
int64_t BackwardMemory(const AttentionShape& shape) {
  return (BackwardWorkspace(shape, nullptr).size + 15) / 16 * 16;
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {

HWY_EXPORT(DifferentiateHeads);
HWY_EXPORT(BackwardMemory);

absl::Status AttentionBackward(Stream& stream, const AttentionBackwardArgs& args) {
  const int64_t heads = args.shape.batch * args.shape.kv_heads;
  ThreadTeam& team = CpuStream::Team(stream);
  const double work = static_cast<double>(args.shape.batch * args.shape.heads * args.shape.dim) *
                      static_cast<double>(args.shape.q_len * args.shape.kv_len);
  const int64_t threads = std::min(UsefulThreads(team, work), heads);
  const int64_t size = HWY_DYNAMIC_DISPATCH(BackwardMemory)(args.shape);
  if (threads <= 0) return absl::OkStatus();
  const auto memory = hwy::AllocateAligned<float>(threads * size);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("attention's backward: no memory for ", threads * size, " floats of workspace"));
  }
  team.OnEach([&](int thread) {
    if (thread >= threads) return;
    HWY_DYNAMIC_DISPATCH(DifferentiateHeads)
    (args, heads * thread / threads, heads * (thread + 1) / threads, memory.get() + thread * size);
  });
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
