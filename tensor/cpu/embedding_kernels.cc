#include "armature/tensor/cpu/embedding_kernels.h"

#include <algorithm>
#include <cstring>

#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/embedding_kernels.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/tensor/cpu/lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

// Columns [begin, end) of every row.
template <typename T>
HWY_INLINE void EmbeddingBackwardColumns(const EmbeddingBackwardArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < args.count; ++i) {
    const int64_t row = args.ids[i] - args.first_row;
    if (row < 0 || row >= args.rows) continue;
    const T* from = static_cast<const T*>(args.dout) + i * args.cols + begin;
    float* to = static_cast<float*>(args.dtable) + row * args.cols + begin;
    ForLanes(d, end - begin, [&](int64_t c, auto lanes) HWY_ATTR {
      lanes.Store(hn::Add(lanes.Load(d, to + c), lanes.Load(d, from + c)), d, to + c);
    });
  }
}

void EmbeddingBackwardF32(const EmbeddingBackwardArgs& args, int64_t begin, int64_t end) {
  EmbeddingBackwardColumns<float>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {

HWY_EXPORT(EmbeddingBackwardF32);

absl::Status Embedding(Stream& stream, const EmbeddingArgs& args) {
  const float* table = static_cast<const float*>(args.table);
  float* out = static_cast<float*>(args.out);
  const size_t row_bytes = args.cols * sizeof(float);
  CpuStream::Team(stream).ParallelFor(args.count, GrainOf(args.cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && row_bytes > 0; ++i) {
      const int64_t row = args.ids[i] - args.first_row;
      if (row >= 0 && row < args.rows) {
        std::memcpy(out + i * args.cols, table + row * args.cols, row_bytes);
      } else {
        std::memset(out + i * args.cols, 0, row_bytes);
      }
    }
  });
  return absl::OkStatus();
}

absl::Status EmbeddingBackward(Stream& stream, const EmbeddingBackwardArgs& args) {
  ThreadTeam& team = CpuStream::Team(stream);
  if (!args.accumulate) {
    float* dtable = static_cast<float*>(args.dtable);
    team.ParallelFor(args.rows * args.cols, kElementGrain, [&](int64_t begin, int64_t end) {
      std::memset(dtable + begin, 0, (end - begin) * sizeof(float));
    });
  }
  const int64_t groups = (args.cols + kColumnGroup - 1) / kColumnGroup;
  const int64_t grain = GrainOf(args.count * kColumnGroup);
  team.ParallelFor(groups, grain, [&](int64_t begin, int64_t end) {
    const int64_t end_col = std::min(args.cols, end * kColumnGroup);
    HWY_DYNAMIC_DISPATCH(EmbeddingBackwardF32)(args, begin * kColumnGroup, end_col);
  });
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
