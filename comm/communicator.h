// Communicator: one rank's end of a group of ranks that work together.
//
// Every rank of the group makes the same calls in the same order:
//
//   ARMATURE_RETURN_IF_ERROR(comm.AllReduce(gradients, ReduceOp::kSum).Wait(deadline));
//
// The verbs, their argument order and their in-place rules are NCCL's. A group of one rank is a real one:
// collectives copy, so no caller needs to ask for size() > 1.
//
// Backends: MakeInprocGroup (comm/inproc/), ConnectProcesses (comm/process_group.h: shared memory on one
// host, Gloo between hosts), ConnectNccl (comm/nccl/).
//
//   | state  | verbs                            | Abort     | Split      | Shrink | destroy |
//   |--------|----------------------------------|-----------|------------|--------|--------------------------|
//   | open   | run; an error → failed, unless   | → failed  | ok         | ok     | cancels unfinished work;
//   | |        | it is InvalidArgument            |           |            |        | peers that still need |
//   |        |                                  |           |            |        | this rank: Unavailable |
//   | failed | return what failed the group     | no effect | that error | ok     | ok |
//
// Errors, from every verb's Wait:
//   InvalidArgument   ranks disagree on verb, count, dtype, reduction or root, or one rank's arguments are
//                     wrong in themselves: every rank gets the same message, which names both sides. No data
//                     has moved, and the group stays open.
//   DeadlineExceeded  a rank did not take part in time; names the ranks that were missing.
//   Unavailable       a rank died or was destroyed; names it.
//   Cancelled         a rank called Abort; has its rank, code and text.
//
// A deadline is the earlier of Wait's and the group's own timeout, which runs from the operation's start.
#ifndef ARMATURE_COMM_COMMUNICATOR_H_
#define ARMATURE_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "armature/comm/reduce_op.h"
#include "armature/comm/work.h"
#include "armature/tensor/buffer.h"

namespace armature {
namespace comm {

// One message of a Group.
struct PointToPoint {
  enum class Kind : uint8_t { kSend, kReceive };
  Kind kind = Kind::kSend;
  int peer = 0;
  BufferView data;
};

// What this rank has moved since the group was made. `steps` counts the rounds in which it waited for its
// peers.
struct Traffic {
  int64_t bytes_sent = 0;      // handed to peers
  int64_t bytes_received = 0;  // taken from peers
  int64_t steps = 0;
};

// Thread-compatible, but for Abort. Different communicators are independent of each other.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "tensor[0..3] of stage 1": in every error.
  virtual absl::string_view name() const = 0;

  // data = reduction of all ranks' data. In place.
  virtual Work AllReduce(BufferView data, ReduceOp op) = 0;
  // On `root`, out = reduction of all ranks' in, and out may be in. Elsewhere out is not looked at.
  virtual Work Reduce(BufferView in, BufferView out, ReduceOp op, int root) = 0;
  // out = this rank's part of the reduction. in.count = size * out.count. In place: out is part rank() of in.
  virtual Work ReduceScatter(BufferView in, BufferView out, ReduceOp op) = 0;
  // Part r has counts[r] elements; `counts` is the same on every rank.
  virtual Work ReduceScatterV(BufferView in, BufferView out, absl::Span<const int64_t> counts,
                              ReduceOp op) = 0;
  // out = all ranks' in, by rank. out.count = size * in.count. In place: in is part rank() of out.
  virtual Work AllGather(BufferView in, BufferView out) = 0;
  // Rank r brings counts[r] elements; `counts` is the same on every rank.
  virtual Work AllGatherV(BufferView in, BufferView out, absl::Span<const int64_t> counts) = 0;
  // Part r of in goes to rank r, and part s of out comes from rank s. in and out must not overlap.
  virtual Work AllToAll(BufferView in, BufferView out) = 0;
  // in_counts[r] elements go to rank r, whose out_counts[this rank] says the same.
  virtual Work AllToAllV(BufferView in, absl::Span<const int64_t> in_counts, BufferView out,
                         absl::Span<const int64_t> out_counts) = 0;
  // data = root's data.
  virtual Work Broadcast(BufferView data, int root) = 0;
  // On `root`, out = all ranks' in, by rank, and in may be part `root` of out. Elsewhere out is not looked
  // at.
  virtual Work Gather(BufferView in, BufferView out, int root) = 0;
  // out = part rank() of root's in; on `root` out may be that part. Elsewhere in is not looked at.
  virtual Work Scatter(BufferView in, BufferView out, int root) = 0;

  // Sends and receives as one: all make progress together, so their order can't lock them. Only the ranks
  // named take part. Messages between two ranks match in the order of the calls; a send is done when its
  // buffer may be reused. Errors: InvalidArgument on both sides if count or dtype differ.
  virtual Work Group(absl::Span<const PointToPoint> transfers) = 0;
  Work Send(BufferView data, int peer) { return Group({{PointToPoint::Kind::kSend, peer, data}}); }
  Work Receive(BufferView data, int peer) { return Group({{PointToPoint::Kind::kReceive, peer, data}}); }

  // Returns OK once all ranks have called it.
  virtual absl::Status Barrier(absl::Time deadline) = 0;

  // Wakes every waiting rank of the group; afterwards every call returns Cancelled with `why` and this rank.
  // A rank that fails before a collective calls Abort and never just skips it. Any thread. An OK `why` counts
  // as Unknown.
  virtual void Abort(absl::Status why) = 0;

  // A collective: ranks with one color form a group, ordered by (key, rank). A negative color joins none and
  // gets null. `name` is the group's; empty makes one up.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key,
                                                              absl::string_view name = "") = 0;
  // The group without `lost_ranks`, in the same order. Every remaining rank calls it with the same list; this
  // group may have failed. Errors: DeadlineExceeded if one of them does not come within the group's timeout.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Shrink(absl::Span<const int> lost_ranks) = 0;

  virtual Traffic traffic() const = 0;
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_COMMUNICATOR_H_
