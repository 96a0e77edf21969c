#include "armature/comm/inproc/inproc_group.h"

#include <cstring>
#include <mutex>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/inproc/inproc_state.h"
#include "armature/comm/queued_communicator.h"
#include "armature/comm/reduce_kernels.h"

namespace armature {
namespace comm {
namespace {

class InprocCommunicator final : public QueuedCommunicator {
 public:
  InprocCommunicator(std::shared_ptr<InprocState> state, int rank, std::string name, absl::Duration timeout)
      : QueuedCommunicator(rank, static_cast<int>(state->words.size()), std::move(name), timeout),
        state_(std::move(state)),
        lockstep_(rank, absl::MakeSpan(state_->words), &state_->failure, nullptr) {}

  ~InprocCommunicator() override {
    CloseLanes();
    lockstep_.Leave();
    state_->mail.Leave(rank());
  }

  Traffic traffic() const override { return {bytes_sent_.load(), bytes_received_.load(), steps_.load()}; }

 private:
  class Messages;

  absl::Status Run(const Operation& operation, absl::Time deadline) override;
  std::unique_ptr<Transfers> Post(absl::Span<const PointToPoint> transfers) override;
  absl::StatusOr<std::unique_ptr<Communicator>> MakeSubgroup(const Subgroup& subgroup) override;

  void FailGroup(const absl::Status& why) override {
    lockstep_.Fail(why);
    state_->mail.Fail(lockstep_.failure());
  }
  absl::Status failure() const override { return lockstep_.failure(); }

  void Show(const Operation& operation);
  absl::Status AgreeWithPeers() const;
  absl::Status Meet(absl::Time deadline, const Operation& operation);
  absl::Status Abandon(absl::Status why);

  const Operation& PeerOperation(int peer) const { return *state_->calls[peer][sequence_ % 2].operation; }
  void MoveData(const Operation& operation);
  void ReduceData(const Operation& operation);
  void ReduceRange(const Operation& operation, Range range);
  void ReduceOwnPart(const Operation& operation);

  const std::shared_ptr<InprocState> state_;
  Lockstep lockstep_;
  uint64_t sequence_ = 0;
  std::atomic<int64_t> bytes_sent_{0}, bytes_received_{0}, steps_{0};
};

void InprocCommunicator::Show(const Operation& operation) {
  ShownCall& call = state_->calls[rank()][sequence_ % 2];
  call.header = MakeHeader(operation, sequence_);
  call.operation = &operation;
  if (!call.header.uneven) return;
  call.sends.resize(size());
  call.receives.resize(size());
  WriteParts(operation, absl::MakeSpan(call.sends), absl::MakeSpan(call.receives));
}

absl::Status InprocCommunicator::AgreeWithPeers() const {
  return Agree(size(), [&](int peer) {
    const ShownCall& call = state_->calls[peer][sequence_ % 2];
    return Call{&call.header, call.sends, call.receives};
  });
}

absl::Status InprocCommunicator::Meet(absl::Time deadline, const Operation& operation) {
  steps_.fetch_add(1, std::memory_order_relaxed);
  return lockstep_.Arrive(deadline, [&] { return Describe(MakeHeader(operation, sequence_)); });
}

// Fails the group and waits until no peer is in this rank's buffers. Peers don't wait while they are inside,
// so they leave soon; one that comes later sees the failure first.
absl::Status InprocCommunicator::Abandon(absl::Status why) {
  absl::Status status = Settle(std::move(why));
  for (const Presence& peer : state_->presence) {
    while (peer.inside.load()) absl::SleepFor(absl::Microseconds(20));
  }
  return status;
}

absl::Status InprocCommunicator::Run(const Operation& operation, absl::Time deadline) {
  ARMATURE_RETURN_IF_ERROR(lockstep_.failure());
  ++sequence_;
  Show(operation);
  absl::Status met = Meet(deadline, operation);
  if (!met.ok()) return Abandon(std::move(met));
  ARMATURE_RETURN_IF_ERROR(AgreeWithPeers());
  if (operation.verb == Verb::kBarrier) return absl::OkStatus();

  std::atomic<bool>& inside = state_->presence[rank()].inside;
  inside.store(true);
  if (lockstep_.failed()) {
    inside.store(false);
    return Abandon(lockstep_.failure());
  }
  if (IsReduction(operation.verb)) {
    ReduceData(operation);
  } else {
    MoveData(operation);
  }
  inside.store(false);
  met = Meet(deadline, operation);
  return met.ok() ? met : Abandon(std::move(met));
}

void InprocCommunicator::MoveData(const Operation& operation) {
  int64_t received = 0;
  for (int step = 0; step < size(); ++step) {
    const int sender = (rank() + step) % size();  // spreads the readers over the senders
    const Region target = Target(operation, sender, rank());
    if (target.bytes == 0) continue;
    const Region source = Source(PeerOperation(sender), sender, rank());
    if (source.data != target.data) std::memcpy(target.data, source.data, static_cast<size_t>(target.bytes));
    if (sender != rank()) received += target.bytes;
  }
  bytes_received_.fetch_add(received, std::memory_order_relaxed);
}

void InprocCommunicator::ReduceData(const Operation& operation) {
  if (operation.verb == Verb::kReduceScatter) {
    ReduceOwnPart(operation);
  } else {
    ReduceRange(operation, ReducedPart(operation.count, SizeOf(operation.dtype), rank(), size()));
  }
}

void InprocCommunicator::ReduceRange(const Operation& operation, Range range) {
  const int64_t width = SizeOf(operation.dtype), count = range.end - range.begin;
  absl::InlinedVector<const void*, 16> sources;
  absl::InlinedVector<void*, 16> targets;
  for (int peer = 0; peer < size(); ++peer) {
    const Operation& theirs = PeerOperation(peer);
    sources.push_back(theirs.in + range.begin * width);
    const bool gets = operation.verb == Verb::kAllReduce || peer == operation.root;
    if (!gets) continue;
    targets.push_back(theirs.out + range.begin * width);
    if (peer != rank()) bytes_sent_.fetch_add(count * width, std::memory_order_relaxed);
  }
  ReduceInto(operation.dtype, operation.reduce_op, sources, targets, count);
  bytes_received_.fetch_add(count * width * (size() - 1), std::memory_order_relaxed);
}

void InprocCommunicator::ReduceOwnPart(const Operation& operation) {
  const int64_t count = operation.in_parts.count(rank());
  absl::InlinedVector<const void*, 16> sources;
  for (int peer = 0; peer < size(); ++peer) sources.push_back(Source(PeerOperation(peer), peer, rank()).data);
  void* const target = operation.out;
  ReduceInto(operation.dtype, operation.reduce_op, sources, {&target, 1}, count);
  bytes_received_.fetch_add(count * SizeOf(operation.dtype) * (size() - 1), std::memory_order_relaxed);
}

class InprocCommunicator::Messages final : public Transfers {
 public:
  Messages(InprocCommunicator& owner, absl::Span<const PointToPoint> transfers) : owner_(owner) {
    Mailboxes& mail = owner_.state_->mail;
    for (const PointToPoint& transfer : transfers) {
      if (transfer.kind == PointToPoint::Kind::kSend) {
        sends_.push_back({transfer.peer, mail.Offer(owner_.rank(), transfer.peer, transfer.data)});
      } else {
        receives_.push_back({transfer.peer, mail.NextReceive(transfer.peer, owner_.rank()), transfer.data});
      }
    }
  }

  ~Messages() override {
    for (Sent& sent : sends_) owner_.state_->mail.Withdraw(*sent.message);
  }

  absl::Status Finish(absl::Time deadline) override {
    absl::Status first = owner_.lockstep_.failure();
    for (const Received& received : receives_) {
      if (!first.ok()) break;
      first =
          owner_.state_->mail.Take(received.peer, owner_.rank(), received.number, received.data, deadline);
      owner_.bytes_received_.fetch_add(received.data.size_bytes(), std::memory_order_relaxed);
    }
    for (const Sent& sent : sends_) {
      absl::Status taken = owner_.state_->mail.AwaitTaken(*sent.message, owner_.rank(), sent.peer, deadline);
      if (first.ok()) first = std::move(taken);
    }
    return first;
  }

 private:
  struct Sent {
    int peer;
    std::shared_ptr<Mailboxes::Message> message;
  };
  struct Received {
    int peer;
    int64_t number;
    BufferView data;
  };

  InprocCommunicator& owner_;
  std::vector<Sent> sends_;
  std::vector<Received> receives_;
};

std::unique_ptr<QueuedCommunicator::Transfers> InprocCommunicator::Post(
    absl::Span<const PointToPoint> transfers) {
  return std::make_unique<Messages>(*this, transfers);
}

absl::StatusOr<std::unique_ptr<Communicator>> InprocCommunicator::MakeSubgroup(const Subgroup& subgroup) {
  const int size = static_cast<int>(subgroup.members.size());
  std::shared_ptr<InprocState> state;
  {
    std::lock_guard<std::mutex> lock(state_->forming_mutex);
    InprocState::Forming& forming = state_->forming[subgroup.tag];
    if (forming.state == nullptr) forming = {std::make_shared<InprocState>(size), size};
    state = forming.state;
    if (--forming.missing == 0) state_->forming.erase(subgroup.tag);
  }
  auto made = std::make_unique<InprocCommunicator>(std::move(state), subgroup.rank, subgroup.name, timeout());
  ARMATURE_RETURN_IF_ERROR(made->Barrier(absl::InfiniteFuture()));
  return made;
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeInprocGroup(int size,
                                                                           const GroupOptions& options) {
  if (size < 1)
    return absl::InvalidArgumentError(absl::StrCat(options.name, ": a group of ", size, " ranks"));
  auto state = std::make_shared<InprocState>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<InprocCommunicator>(state, rank, options.name, options.timeout));
  }
  return ranks;
}

}  // namespace comm
}  // namespace armature
