// Operation: a verb with checked arguments, as backends see it. Which bytes go from whom to whom is decided
// here, once for all backends: Source and Target say it for each pair of ranks.
#ifndef ARMATURE_COMM_OPERATION_H_
#define ARMATURE_COMM_OPERATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "armature/comm/reduce_op.h"
#include "armature/tensor/buffer.h"

namespace armature {
namespace comm {

enum class Verb : uint8_t {
  kBarrier,
  kAllReduce,
  kReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kGather,
  kScatter
};

// "all-reduce", "reduce-scatter", ...
absl::string_view Name(Verb verb);

// A whole cut into one part for each rank. Uniform cuts hold no list.
class Parts {
 public:
  Parts() = default;
  // `each` elements for every rank.
  explicit Parts(int64_t each) : each_(each) {}
  explicit Parts(absl::Span<const int64_t> counts);

  int64_t begin(int rank) const { return ends_.empty() ? each_ * rank : (rank == 0 ? 0 : ends_[rank - 1]); }
  int64_t count(int rank) const { return ends_.empty() ? each_ : ends_[rank] - begin(rank); }
  bool uniform() const { return ends_.empty(); }

 private:
  int64_t each_ = 0;
  std::vector<int64_t> ends_;
};

// A run of bytes.
struct Region {
  char* data = nullptr;
  int64_t bytes = 0;
};

struct Operation {
  Verb verb = Verb::kBarrier;
  ReduceOp reduce_op = ReduceOp::kSum;
  DType dtype = DType::kF32;
  int root = 0;
  // What the ranks must agree on: the elements of the whole for all-reduce, reduce and broadcast, of a part
  // for the others, of all parts together for those with unequal parts.
  int64_t count = 0;
  char* in = nullptr;
  char* out = nullptr;
  Parts in_parts;   // reduce-scatter, all-to-all, scatter: how `in` is cut
  Parts out_parts;  // all-gather, all-to-all, gather: how `out` is cut
  // Why this rank's own arguments are wrong. The operation is carried out all the same, so that all ranks
  // learn it.
  absl::Status argument_error;
};

// The bytes that `sender`, whose operation this is, has for `receiver`. Reductions: its contribution to the
// part that `receiver` gets (reduce-scatter only).
Region Source(const Operation& operation, int sender, int receiver);
// Where `receiver`, whose operation this is, puts what comes from `sender`. Empty for reductions.
Region Target(const Operation& operation, int sender, int receiver);

// True for all-reduce, reduce and reduce-scatter.
bool IsReduction(Verb verb);

// The part of `count` elements that `rank` reduces in an all-reduce or reduce: parts differ by at most one
// cache line.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
Range ReducedPart(int64_t count, int64_t element_bytes, int rank, int size);

// Makers: each checks what one rank can check alone and sets argument_error (InvalidArgument).
Operation MakeBarrier();
Operation MakeAllReduce(BufferView data, ReduceOp op);
Operation MakeReduce(BufferView in, BufferView out, ReduceOp op, int root, int rank, int size);
Operation MakeReduceScatter(BufferView in, BufferView out, ReduceOp op, int rank, int size);
Operation MakeReduceScatterV(BufferView in, BufferView out, absl::Span<const int64_t> counts, ReduceOp op,
                             int rank, int size);
Operation MakeAllGather(BufferView in, BufferView out, int rank, int size);
Operation MakeAllGatherV(BufferView in, BufferView out, absl::Span<const int64_t> counts, int rank, int size);
Operation MakeAllToAll(BufferView in, BufferView out, int size);
Operation MakeAllToAllV(BufferView in, absl::Span<const int64_t> in_counts, BufferView out,
                        absl::Span<const int64_t> out_counts, int size);
Operation MakeBroadcast(BufferView data, int root, int size);
Operation MakeGather(BufferView in, BufferView out, int root, int rank, int size);
Operation MakeScatter(BufferView in, BufferView out, int root, int rank, int size);

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_OPERATION_H_
