// QueuedCommunicator: what all CPU backends share. It checks arguments, puts operations in line, and builds
// Split and Shrink from the verbs; a backend carries out one operation at a time.
#ifndef ARMATURE_COMM_QUEUED_COMMUNICATOR_H_
#define ARMATURE_COMM_QUEUED_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "armature/comm/communicator.h"
#include "armature/comm/lane.h"
#include "armature/comm/operation.h"

namespace armature {
namespace comm {

class QueuedCommunicator : public Communicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }
  absl::string_view name() const final { return name_; }

  Work AllReduce(BufferView data, ReduceOp op) final;
  Work Reduce(BufferView in, BufferView out, ReduceOp op, int root) final;
  Work ReduceScatter(BufferView in, BufferView out, ReduceOp op) final;
  Work ReduceScatterV(BufferView in, BufferView out, absl::Span<const int64_t> counts, ReduceOp op) final;
  Work AllGather(BufferView in, BufferView out) final;
  Work AllGatherV(BufferView in, BufferView out, absl::Span<const int64_t> counts) final;
  Work AllToAll(BufferView in, BufferView out) final;
  Work AllToAllV(BufferView in, absl::Span<const int64_t> in_counts, BufferView out,
                 absl::Span<const int64_t> out_counts) final;
  Work Broadcast(BufferView data, int root) final;
  Work Gather(BufferView in, BufferView out, int root) final;
  Work Scatter(BufferView in, BufferView out, int root) final;
  Work Group(absl::Span<const PointToPoint> transfers) final;
  absl::Status Barrier(absl::Time deadline) final;
  void Abort(absl::Status why) final;
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key, absl::string_view name) final;
  absl::StatusOr<std::unique_ptr<Communicator>> Shrink(absl::Span<const int> lost_ranks) final;

 protected:
  // The messages of one Group, posted in the order of the calls when the call was made.
  class Transfers {
   public:
    virtual ~Transfers() = default;
    // OK once all are done. On an error no peer touches the buffers any more.
    virtual absl::Status Finish(absl::Time deadline) = 0;
  };

  // Which ranks of this group form a new one, and how they find each other.
  struct Subgroup {
    std::string tag;  // the same on all its members, different for any other subgroup of this group
    std::string name;
    std::vector<int> members;  // ranks of this group, in the new order
    int rank = 0;              // this rank's place among them
  };

  // `timeout` bounds every operation.
  QueuedCommunicator(int rank, int size, std::string name, absl::Duration timeout);

  // Carries out one collective; one at a time, in the order of the calls. The caller settles its result.
  virtual absl::Status Run(const Operation& operation, absl::Time deadline) = 0;
  // Never waits.
  virtual std::unique_ptr<Transfers> Post(absl::Span<const PointToPoint> transfers) = 0;
  // Fails the group for all ranks, unless it has failed already, and wakes them. Any thread.
  virtual void FailGroup(const absl::Status& why) = 0;
  // The error that failed the group.
  virtual absl::Status failure() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Communicator>> MakeSubgroup(const Subgroup& subgroup) = 0;

  // Fails the group with `status` and this rank's and the group's names, unless it is OK or InvalidArgument;
  // returns the group's failure, or `status` with the group's name.
  absl::Status Settle(absl::Status status);
  // Ends all work. A backend's destructor calls it first.
  void CloseLanes();
  absl::Duration timeout() const { return timeout_; }

 private:
  class Collective;
  class Messages;

  Work Submit(Operation operation, std::initializer_list<BufferView> buffers);
  absl::Status CheckTransfer(const PointToPoint& transfer) const;

  const int rank_;
  const int size_;
  const std::string name_;
  const absl::Duration timeout_;
  int64_t splits_ = 0;
  Lane collectives_;
  Lane messages_;
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_QUEUED_COMMUNICATOR_H_
