#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "armature/tensor/cpu/attention_kernels.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"
#include "hwy/aligned_allocator.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/attention_forward.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/tensor/cpu/attention_tile-inl.h"
#include "armature/tensor/cpu/transcendental-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

// A thread's memory: a head's keys and values, and one block of queries. Null memory only measures.
struct ForwardWorkspace {
  ForwardWorkspace(const AttentionShape& shape, float* memory) {
    const auto take = [&](int64_t count) {
      float* taken = memory == nullptr ? nullptr : memory + size;
      size += count;
      return taken;
    };
    keys = take(PaddedDim(shape.kv_len) * shape.dim);
    values = take(shape.kv_len * PaddedDim(shape.dim));
    queries = take(HeadRowsSize(shape.dim));
    scores = take(kQueries * kTileStride);
    out = take(kQueries * PaddedDim(shape.dim));
  }

  float* keys;     // transposed panels
  float* values;   // panels
  float* queries;  // packed rows, scaled
  float* scores;
  float* out;  // sums, [kQueries, PaddedDim]
  int64_t size = 0;
};

// The running softmax of one query.
struct RunningSoftmax {
  float max = kHidden, sum = 0;
};

// Replaces scores by exp(score - max) and returns the factor for what was summed before.
HWY_INLINE float Exponentiate(float* scores, int64_t width, RunningSoftmax& state) {
  const hn::ScalableTag<float> d;
  const int64_t n = hn::Lanes(d);
  auto v_max = hn::Set(d, state.max);
  for (int64_t j = 0; j < width; j += n) v_max = hn::Max(v_max, hn::Load(d, scores + j));
  const float max = hn::GetLane(hn::MaxOfLanes(d, v_max));
  if (max == kHidden) {
    std::fill_n(scores, width, 0.0f);
    return 1;
  }
  v_max = hn::Set(d, max);
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < width; j += n) {
    const auto weight = Exp(d, hn::Sub(hn::Load(d, scores + j), v_max));
    hn::Store(weight, d, scores + j);
    sum = hn::Add(sum, weight);
  }
  const float before = max == state.max ? 1 : hn::GetLane(Exp(d, hn::Set(d, state.max - max)));
  state.sum = state.sum * before + hn::GetLane(hn::SumOfLanes(d, sum));
  state.max = max;
  return before;
}

HWY_INLINE void Scale(float* x, int64_t count, float factor) {
  const hn::ScalableTag<float> d;
  const int64_t n = hn::Lanes(d);
  for (int64_t j = 0; j < count; j += n) hn::Store(hn::Mul(hn::Load(d, x + j), hn::Set(d, factor)), d, x + j);
}

// Adds keys [first, first + keys) to the softmax and the sums of queries [query, query + rows).
HWY_INLINE void AttendKeys(const AttentionShape& shape, const HeadMask& mask, const ForwardWorkspace& at,
                           int64_t query, int64_t row, int64_t rows, int64_t first, int64_t keys,
                           RunningSoftmax* states) {
  const int64_t n = hn::Lanes(hn::ScalableTag<float>());
  const int64_t width = (keys + n - 1) / n * n, padded = PaddedDim(shape.dim);
  float* scores = at.scores + row * kTileStride;
  float* out = at.out + row * padded;
  MultiplyByKeys(at.queries + row * kTileStride, at.keys + first * shape.dim, shape.dim, rows, keys, scores);
  for (int64_t i = 0; i < rows; ++i) {
    float* weights = scores + i * kTileStride;
    mask.Hide(query + row + i, first, width, weights);
    const float before = Exponentiate(weights, width, states[row + i]);
    if (before != 1) Scale(out + i * padded, padded, before);
    if (!mask.has_dropout()) continue;
    HWY_ALIGN float factors[kKeys];
    mask.DropoutFactors(query + row + i, first, width, factors);
    const hn::ScalableTag<float> d;
    for (int64_t j = 0; j < width; j += n) {
      hn::Store(hn::Mul(hn::Load(d, weights + j), hn::Load(d, factors + j)), d, weights + j);
    }
  }
  AddWeightedRows(scores, at.values + first * TileCols(), shape.kv_len, shape.dim, rows, keys, out);
}

// out and lse of queries [query, query + rows) of one sample and head, whose keys and values are packed.
void AttendBlock(const AttentionArgs& args, int64_t sample, int64_t head, int64_t query,
                 const ForwardWorkspace& at) {
  const hn::ScalableTag<float> d;
  const AttentionShape& shape = args.shape;
  const HeadMask mask(shape, sample, head);
  const int64_t rows = std::min(kQueries, shape.q_len - query), padded = PaddedDim(shape.dim);
  PackHeadRows(
      static_cast<const float*>(args.q) + (sample * shape.q_len + query) * shape.q_stride + head * shape.dim,
      shape.q_stride, rows, shape.dim, static_cast<float>(shape.scale), at.queries);
  std::fill_n(at.out, rows * padded, 0.0f);
  RunningSoftmax states[kQueries];
  const int64_t last = mask.Limit(query + rows - 1);
  for (int64_t first = 0; first < last; first += kKeys) {
    for (int64_t row = 0; row < rows; row += kTileRows) {
      const int64_t height = std::min(kTileRows, rows - row);
      const int64_t keys = std::min(kKeys, mask.Limit(query + row + height - 1) - first);
      if (keys > 0) AttendKeys(shape, mask, at, query, row, height, first, keys, states);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    const RunningSoftmax& state = states[i];
    const auto factor = hn::Set(d, state.sum > 0 ? 1 / state.sum : 0);
    float* out = static_cast<float*>(args.out) + (sample * shape.q_len + query + i) * shape.out_stride +
                 head * shape.dim;
    const float* sums = at.out + i * padded;
    ForLanes(d, shape.dim, [&](int64_t c, auto lanes) HWY_ATTR {
      lanes.Store(hn::Mul(hn::Load(d, sums + c), factor), d, out + c);
    });
    static_cast<float*>(args.lse)[(sample * shape.heads + head) * shape.q_len + query + i] =
        state.sum > 0 ? state.max + std::log(state.sum) : kHidden;
  }
}

// Blocks [begin, end) of the list (sample, head, block of queries).
void AttendBlocks(const AttentionArgs& args, int64_t begin, int64_t end, float* memory) {
  const AttentionShape& shape = args.shape;
  const ForwardWorkspace at(shape, memory);
  const int64_t blocks = (shape.q_len + kQueries - 1) / kQueries, group = shape.heads / shape.kv_heads;
  int64_t packed = -1;
  for (int64_t index = begin; index < end; ++index) {
    const int64_t sample = index / blocks / shape.heads, head = index / blocks % shape.heads;
    const int64_t kv_head = head / group;
    if (packed != sample * shape.kv_heads + kv_head) {
      packed = sample * shape.kv_heads + kv_head;
      const float* k =
          static_cast<const float*>(args.k) + sample * shape.kv_len * shape.k_stride + kv_head * shape.dim;
      const float* v =
          static_cast<const float*>(args.v) + sample * shape.kv_len * shape.v_stride + kv_head * shape.dim;
      PackHeadTransposed(k, shape.k_stride, shape.kv_len, shape.dim, at.keys);
      PackHeadPanels(v, shape.v_stride, shape.kv_len, shape.dim, at.values);
    }
    AttendBlock(args, sample, head, index % blocks * kQueries, at);
  }
}

int64_t ForwardBlocks(const AttentionShape& shape) {
  return shape.batch * shape.heads * ((shape.q_len + kQueries - 1) / kQueries);
}

// Elements, a multiple of a cache line.
int64_t ForwardMemory(const AttentionShape& shape) {
  return (ForwardWorkspace(shape, nullptr).size + 15) / 16 * 16;
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {

HWY_EXPORT(AttendBlocks);
HWY_EXPORT(ForwardBlocks);
HWY_EXPORT(ForwardMemory);

absl::Status Attention(Stream& stream, const AttentionArgs& args) {
  const int64_t blocks = HWY_DYNAMIC_DISPATCH(ForwardBlocks)(args.shape);
  ThreadTeam& team = CpuStream::Team(stream);
  const double work = static_cast<double>(args.shape.batch * args.shape.heads * args.shape.dim) *
                      static_cast<double>(args.shape.q_len * args.shape.kv_len);
  const int64_t threads = std::min(UsefulThreads(team, work), blocks);
  const int64_t size = HWY_DYNAMIC_DISPATCH(ForwardMemory)(args.shape);
  if (threads <= 0) return absl::OkStatus();
  const auto memory = hwy::AllocateAligned<float>(threads * size);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("attention: no memory for ", threads * size, " floats of workspace"));
  }
  team.OnEach([&](int thread) {
    if (thread >= threads) return;
    HWY_DYNAMIC_DISPATCH(AttendBlocks)
    (args, blocks * thread / threads, blocks * (thread + 1) / threads, memory.get() + thread * size);
  });
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
