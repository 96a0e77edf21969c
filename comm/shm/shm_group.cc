#include "armature/comm/shm/shm_group.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/queued_communicator.h"
#include "armature/comm/shm/layout.h"
#include "armature/comm/shm/shared_segment.h"
#include "armature/comm/shm/shm_collective.h"
#include "armature/comm/shm/shm_messages.h"

namespace armature {
namespace comm {
namespace {

class ShmCommunicator final : public QueuedCommunicator {
 public:
  ShmCommunicator(std::unique_ptr<SharedSegment> segment, std::shared_ptr<Store> store, int rank, int size,
                  const GroupOptions& options)
      : QueuedCommunicator(rank, size, options.name, options.timeout),
        store_(std::move(store)),
        connect_subgroup_(options.connect_subgroup ? options.connect_subgroup : ConnectSharedMemory),
        segment_(std::move(segment)),
        layout_(segment_->data(), size),
        lockstep_(rank, layout_.words(), layout_.failure(), Lives()),
        collective_(layout_, lockstep_, counters_, rank, size),
        messages_(layout_, lockstep_, Lives(), counters_, rank, size) {}

  ~ShmCommunicator() override {
    CloseLanes();
    lockstep_.Leave();
  }

  Traffic traffic() const override {
    return {counters_.bytes_sent.load(), counters_.bytes_received.load(), counters_.steps.load()};
  }

 private:
  class Messages final : public Transfers {
   public:
    Messages(ShmCommunicator& owner, absl::Span<const PointToPoint> requests)
        : owner_(owner), transfers_(owner.messages_.Number(requests)) {}
    absl::Status Finish(absl::Time deadline) override {
      return owner_.messages_.Finish(absl::MakeSpan(transfers_), deadline);
    }

   private:
    ShmCommunicator& owner_;
    std::vector<ShmMessages::Transfer> transfers_;
  };

  Lockstep::Lives Lives() {
    return [segment = segment_.get()](int peer) { return segment->Lives(peer); };
  }

  absl::Status Run(const Operation& operation, absl::Time deadline) override {
    ARMATURE_RETURN_IF_ERROR(lockstep_.failure());
    return collective_.Run(operation, deadline);
  }
  std::unique_ptr<Transfers> Post(absl::Span<const PointToPoint> transfers) override {
    return std::make_unique<Messages>(*this, transfers);
  }
  void FailGroup(const absl::Status& why) override { lockstep_.Fail(why); }
  absl::Status failure() const override { return lockstep_.failure(); }

  absl::StatusOr<std::unique_ptr<Communicator>> MakeSubgroup(const Subgroup& subgroup) override {
    return connect_subgroup_(WithPrefix(store_, absl::StrCat(subgroup.tag, "/")), subgroup.rank,
                             static_cast<int>(subgroup.members.size()),
                             {subgroup.name, timeout(), connect_subgroup_});
  }

  const std::shared_ptr<Store> store_;
  const GroupOptions::Connect connect_subgroup_;
  const std::unique_ptr<SharedSegment> segment_;
  const ShmLayout layout_;
  Lockstep lockstep_;
  ShmCounters counters_;
  ShmCollective collective_;
  ShmMessages messages_;
};

// The first rank waits until all have the segment, so that its name can go.
absl::StatusOr<std::unique_ptr<SharedSegment>> LeadMeeting(Store& store, int size, absl::Time deadline) {
  absl::StatusOr<std::unique_ptr<SharedSegment>> segment = SharedSegment::Create(ShmLayout::SizeBytes(size));
  absl::Status status = segment.status();
  if (status.ok()) status = (*segment)->ShowLife(0);
  if (!status.ok()) {
    ARMATURE_RETURN_IF_ERROR(store.Set("segment", absl::StrCat("!", status.message())));
    return status;
  }
  ARMATURE_RETURN_IF_ERROR(store.Set("segment", (*segment)->name()));
  for (int rank = 1; rank < size && status.ok(); ++rank) {
    absl::StatusOr<std::string> text = store.Get(absl::StrCat("joined/", rank), deadline);
    if (!text.ok()) {
      status = AddContext(text.status(), "rank ", rank, " did not come");
    } else if (!text->empty()) {
      status = absl::UnavailableError(absl::StrCat("rank ", rank, ": ", *text));
    }
  }
  (*segment)->Unlink();
  ARMATURE_RETURN_IF_ERROR(store.Set("go", status.message()));
  ARMATURE_RETURN_IF_ERROR(status);
  return segment;
}

absl::StatusOr<std::unique_ptr<SharedSegment>> JoinMeeting(Store& store, int rank, int size,
                                                           absl::Time deadline) {
  const absl::StatusOr<std::string> answer = store.Get("segment", deadline);
  ARMATURE_RETURN_IF_ERROR(answer.status(), "rank 0 did not come");
  absl::string_view name = *answer;
  if (absl::ConsumePrefix(&name, "!")) return absl::ResourceExhaustedError(absl::StrCat("rank 0: ", name));
  absl::StatusOr<std::unique_ptr<SharedSegment>> segment =
      SharedSegment::Open(name, ShmLayout::SizeBytes(size));
  absl::Status status = segment.status();
  if (status.ok()) status = (*segment)->ShowLife(rank);
  ARMATURE_RETURN_IF_ERROR(store.Set(absl::StrCat("joined/", rank), status.message()));
  ARMATURE_RETURN_IF_ERROR(status);
  // The first rank has the same deadline and says who is missing.
  ARMATURE_ASSIGN_OR_RETURN(std::string problem, store.Get("go", deadline + absl::Seconds(1)),
                            "rank 0 was lost");
  if (!problem.empty()) return absl::DeadlineExceededError(problem);
  return segment;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectSharedMemory(std::shared_ptr<Store> store, int rank,
                                                                  int size, const GroupOptions& options) {
  if (size < 1 || rank < 0 || rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat(options.name, ": rank ", rank, " of a group of ", size));
  }
  const absl::Time deadline = absl::Now() + options.timeout;
  absl::StatusOr<std::unique_ptr<SharedSegment>> segment =
      rank == 0 ? LeadMeeting(*store, size, deadline) : JoinMeeting(*store, rank, size, deadline);
  ARMATURE_RETURN_IF_ERROR(segment.status(), options.name);
  return std::make_unique<ShmCommunicator>(*std::move(segment), std::move(store), rank, size, options);
}

}  // namespace comm
}  // namespace armature
