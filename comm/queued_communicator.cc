#include "armature/comm/queued_communicator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace comm {

class QueuedCommunicator::Collective : public Task {
 public:
  Collective(QueuedCommunicator& owner, Operation operation)
      : owner_(owner), operation_(std::move(operation)) {}
  absl::Status Run(absl::Time deadline) override {
    return owner_.Settle(owner_.Run(operation_, std::min(deadline, absl::Now() + owner_.timeout_)));
  }

 private:
  QueuedCommunicator& owner_;
  const Operation operation_;
};

class QueuedCommunicator::Messages : public Task {
 public:
  Messages(QueuedCommunicator& owner, std::unique_ptr<Transfers> transfers)
      : owner_(owner), transfers_(std::move(transfers)) {}
  absl::Status Run(absl::Time deadline) override {
    return owner_.Settle(transfers_->Finish(std::min(deadline, absl::Now() + owner_.timeout_)));
  }

 private:
  QueuedCommunicator& owner_;
  const std::unique_ptr<Transfers> transfers_;
};

QueuedCommunicator::QueuedCommunicator(int rank, int size, std::string name, absl::Duration timeout)
    : rank_(rank),
      size_(size),
      name_(std::move(name)),
      timeout_(timeout),
      collectives_([this](absl::Status why) { FailGroup(why); }),
      messages_([this](absl::Status why) { FailGroup(why); }) {}

void QueuedCommunicator::CloseLanes() {
  const absl::Status why =
      absl::CancelledError(absl::StrCat(name_, ": rank ", rank_, " destroyed its communicator"));
  collectives_.Close(why);
  messages_.Close(why);
}

// The first error of a group stays its error.
absl::Status QueuedCommunicator::Settle(absl::Status status) {
  if (status.ok()) return status;
  if (status.code() == absl::StatusCode::kInvalidArgument) return AddContext(std::move(status), name_);
  if (failure().ok()) FailGroup(AddContext(std::move(status), name_, ", seen by rank ", rank_));
  return failure();
}

Work QueuedCommunicator::Submit(Operation operation, std::initializer_list<BufferView> buffers) {
  for (const BufferView& view : buffers) {
    if (view.device.kind == Device::Kind::kCpu || view.count == 0 || !operation.argument_error.ok()) continue;
    operation.argument_error = absl::InvalidArgumentError(
        absl::StrCat(Name(operation.verb), ": this group works in the memory of the CPU only"));
  }
  return collectives_.Submit(std::make_unique<Collective>(*this, std::move(operation)));
}

Work QueuedCommunicator::AllReduce(BufferView data, ReduceOp op) {
  return Submit(MakeAllReduce(data, op), {data});
}

Work QueuedCommunicator::Reduce(BufferView in, BufferView out, ReduceOp op, int root) {
  if (rank_ != root) out = BufferView();
  return Submit(MakeReduce(in, out, op, root, rank_, size_), {in, out});
}

Work QueuedCommunicator::ReduceScatter(BufferView in, BufferView out, ReduceOp op) {
  return Submit(MakeReduceScatter(in, out, op, rank_, size_), {in, out});
}

Work QueuedCommunicator::ReduceScatterV(BufferView in, BufferView out, absl::Span<const int64_t> counts,
                                        ReduceOp op) {
  return Submit(MakeReduceScatterV(in, out, counts, op, rank_, size_), {in, out});
}

Work QueuedCommunicator::AllGather(BufferView in, BufferView out) {
  return Submit(MakeAllGather(in, out, rank_, size_), {in, out});
}

Work QueuedCommunicator::AllGatherV(BufferView in, BufferView out, absl::Span<const int64_t> counts) {
  return Submit(MakeAllGatherV(in, out, counts, rank_, size_), {in, out});
}

Work QueuedCommunicator::AllToAll(BufferView in, BufferView out) {
  return Submit(MakeAllToAll(in, out, size_), {in, out});
}

Work QueuedCommunicator::AllToAllV(BufferView in, absl::Span<const int64_t> in_counts, BufferView out,
                                   absl::Span<const int64_t> out_counts) {
  return Submit(MakeAllToAllV(in, in_counts, out, out_counts, size_), {in, out});
}

Work QueuedCommunicator::Broadcast(BufferView data, int root) {
  return Submit(MakeBroadcast(data, root, size_), {data});
}

Work QueuedCommunicator::Gather(BufferView in, BufferView out, int root) {
  if (rank_ != root) out = BufferView();
  return Submit(MakeGather(in, out, root, rank_, size_), {in, out});
}

Work QueuedCommunicator::Scatter(BufferView in, BufferView out, int root) {
  if (rank_ != root) in = BufferView();
  return Submit(MakeScatter(in, out, root, rank_, size_), {in, out});
}

absl::Status QueuedCommunicator::CheckTransfer(const PointToPoint& transfer) const {
  const BufferView& data = transfer.data;
  if (transfer.peer < 0 || transfer.peer >= size_) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": peer ", transfer.peer, " is not a rank of ", size_));
  }
  if (data.count < 0 || (data.count > 0 && data.data == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": message of ", data.count, " elements without data"));
  }
  if (data.device.kind != Device::Kind::kCpu) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": this group works in the memory of the CPU only"));
  }
  return absl::OkStatus();
}

Work QueuedCommunicator::Group(absl::Span<const PointToPoint> transfers) {
  for (const PointToPoint& transfer : transfers) {
    absl::Status status = CheckTransfer(transfer);
    if (!status.ok()) return Work(std::move(status));
  }
  return messages_.Submit(std::make_unique<Messages>(*this, Post(transfers)));
}

absl::Status QueuedCommunicator::Barrier(absl::Time deadline) {
  return Submit(MakeBarrier(), {}).Wait(deadline);
}

void QueuedCommunicator::Abort(absl::Status why) {
  if (why.ok()) why = absl::UnknownError("no reason given");
  FailGroup(
      absl::CancelledError(absl::StrCat(name_, ": rank ", rank_, " aborted the group: ", why.ToString())));
}

absl::StatusOr<std::unique_ptr<Communicator>> QueuedCommunicator::Split(int color, int key,
                                                                        absl::string_view name) {
  int32_t mine[2] = {color, key};
  std::vector<int32_t> all(2 * static_cast<size_t>(size_));
  ARMATURE_RETURN_IF_ERROR(
      AllGather({mine, 2, DType::kI32, {}}, {all.data(), 2 * size_, DType::kI32, {}}).Wait(), "split");
  const int64_t number = splits_++;
  if (color < 0) return nullptr;
  Subgroup subgroup;
  for (int rank = 0; rank < size_; ++rank) {
    if (all[2 * rank] == color) subgroup.members.push_back(rank);
  }
  std::stable_sort(subgroup.members.begin(), subgroup.members.end(),
                   [&](int a, int b) { return all[2 * a + 1] < all[2 * b + 1]; });
  const auto place = std::find(subgroup.members.begin(), subgroup.members.end(), rank_);
  subgroup.rank = static_cast<int>(place - subgroup.members.begin());
  subgroup.tag = absl::StrCat("split", number, ".", color);
  subgroup.name = name.empty() ? absl::StrCat(name_, "/", subgroup.tag) : std::string(name);
  return MakeSubgroup(subgroup);
}

absl::StatusOr<std::unique_ptr<Communicator>> QueuedCommunicator::Shrink(absl::Span<const int> lost_ranks) {
  std::vector<int> lost(lost_ranks.begin(), lost_ranks.end());
  std::sort(lost.begin(), lost.end());
  lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
  Subgroup subgroup;
  for (int rank = 0; rank < size_; ++rank) {
    if (std::binary_search(lost.begin(), lost.end(), rank)) continue;
    if (rank == rank_) subgroup.rank = static_cast<int>(subgroup.members.size());
    subgroup.members.push_back(rank);
  }
  if (static_cast<int>(subgroup.members.size() + lost.size()) != size_) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": [", absl::StrJoin(lost, ", "), "] are not ranks of a group of ", size_));
  }
  if (std::binary_search(lost.begin(), lost.end(), rank_)) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": rank ", rank_, " can't shrink itself away"));
  }
  subgroup.tag = absl::StrCat("without ", absl::StrJoin(lost, ","));
  subgroup.name = absl::StrCat(name_, " ", subgroup.tag);
  return MakeSubgroup(subgroup);
}

}  // namespace comm
}  // namespace armature
