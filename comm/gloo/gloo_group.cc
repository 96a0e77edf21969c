#include "armature/comm/gloo/gloo_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/gloo/gloo_collective.h"
#include "armature/comm/gloo/gloo_messages.h"
#include "armature/comm/gloo/gloo_transport.h"
#include "armature/comm/queued_communicator.h"

namespace armature {
namespace comm {
namespace {

GroupOptions::Connect ConnectAt(std::string address) {
  return [address](std::shared_ptr<Store> store, int rank, int size, const GroupOptions& options) {
    return ConnectGloo(std::move(store), rank, size, address, options);
  };
}

class GlooCommunicator final : public QueuedCommunicator {
 public:
  GlooCommunicator(std::unique_ptr<GlooTransport> transport, std::shared_ptr<Store> store,
                   std::string address, const GroupOptions& options)
      : QueuedCommunicator(transport->rank(), transport->size(), options.name, options.timeout),
        store_(std::move(store)),
        connect_subgroup_(options.connect_subgroup ? options.connect_subgroup
                                                   : ConnectAt(std::move(address))),
        transport_(std::move(transport)),
        collective_(*transport_, counters_),
        messages_(*transport_, counters_) {}

  ~GlooCommunicator() override { CloseLanes(); }

  Traffic traffic() const override {
    return {counters_.bytes_sent.load(), counters_.bytes_received.load(), counters_.steps.load()};
  }

 private:
  class Messages final : public Transfers {
   public:
    Messages(GlooCommunicator& owner, absl::Span<const PointToPoint> requests)
        : owner_(owner), batch_(owner.messages_.Announce(requests)) {}
    absl::Status Finish(absl::Time deadline) override { return owner_.messages_.Finish(*batch_, deadline); }

   private:
    GlooCommunicator& owner_;
    const std::unique_ptr<GlooMessages::Batch> batch_;
  };

  absl::Status Run(const Operation& operation, absl::Time deadline) override {
    ARMATURE_RETURN_IF_ERROR(transport_->failure());
    return collective_.Run(operation, deadline);
  }
  std::unique_ptr<Transfers> Post(absl::Span<const PointToPoint> transfers) override {
    return std::make_unique<Messages>(*this, transfers);
  }
  void FailGroup(const absl::Status& why) override { transport_->Fail(why); }
  absl::Status failure() const override { return transport_->failure(); }

  absl::StatusOr<std::unique_ptr<Communicator>> MakeSubgroup(const Subgroup& subgroup) override {
    return connect_subgroup_(WithPrefix(store_, absl::StrCat(subgroup.tag, "/")), subgroup.rank,
                             static_cast<int>(subgroup.members.size()),
                             {subgroup.name, timeout(), connect_subgroup_});
  }

  const std::shared_ptr<Store> store_;
  const GroupOptions::Connect connect_subgroup_;
  const std::unique_ptr<GlooTransport> transport_;
  GlooCounters counters_;
  GlooCollective collective_;
  GlooMessages messages_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectGloo(std::shared_ptr<Store> store, int rank, int size,
                                                          const std::string& address,
                                                          const GroupOptions& options) {
  if (size < 1 || rank < 0 || rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat(options.name, ": rank ", rank, " of a group of ", size));
  }
  ARMATURE_ASSIGN_OR_RETURN(
      std::unique_ptr<GlooTransport> transport,
      GlooTransport::Connect(*store, rank, size, address, absl::Now() + options.timeout), options.name);
  return std::make_unique<GlooCommunicator>(std::move(transport), std::move(store), address, options);
}

}  // namespace comm
}  // namespace armature
