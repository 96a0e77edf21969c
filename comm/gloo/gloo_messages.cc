#include "armature/comm/gloo/gloo_messages.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace comm {
namespace {

using Kind = PointToPoint::Kind;
using Direction = Packet::Direction;

constexpr uint64_t kHeadSlot = uint64_t{1} << 50;
constexpr uint64_t kBytesSlot = uint64_t{1} << 51;

absl::Status CheckSame(int from, const GlooMessages::Head& sent, int to, const GlooMessages::Head& received) {
  if (sent.count == received.count && sent.dtype == received.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ranks disagree: rank ", from, " sends ", sent.count, " ",
                                                 Name(sent.dtype), ", rank ", to, " receives ",
                                                 received.count, " ", Name(received.dtype)));
}

}  // namespace

GlooMessages::GlooMessages(GlooTransport& transport, GlooCounters& counters)
    : transport_(transport),
      counters_(counters),
      rank_(transport.rank()),
      sends_(transport.size()),
      receives_(transport.size()) {}

std::unique_ptr<GlooMessages::Batch> GlooMessages::Announce(absl::Span<const PointToPoint> requests) {
  auto batch = std::make_unique<Batch>();
  for (const PointToPoint& request : requests) {
    const bool sends = request.kind == Kind::kSend;
    const uint32_t number = (sends ? sends_ : receives_)[request.peer]++;
    batch->transfers.push_back({request, {request.data.count, number, request.data.dtype, sends}});
  }
  std::vector<Packet> packets;
  for (Transfer& transfer : batch->transfers) {
    if (transfer.request.peer == rank_) continue;
    char* const head = reinterpret_cast<char*>(&transfer.head);
    packets.push_back({Direction::kSend, transfer.request.peer, {head, sizeof(Head)}});
  }
  batch->posted = transport_.Post(packets, kHeadSlot, batch->heads);
  return batch;
}

absl::Status GlooMessages::Finish(Batch& batch, absl::Time deadline) {
  ARMATURE_RETURN_IF_ERROR(transport_.failure());
  ARMATURE_RETURN_IF_ERROR(batch.posted);
  absl::Status result = FinishWithSelf(batch);
  GlooTransport::Flight flight;
  std::vector<const Transfer*> open;
  for (const Transfer& transfer : batch.transfers) {
    if (transfer.request.peer != rank_) open.push_back(&transfer);
  }
  while (!open.empty()) {
    std::vector<const Transfer*> unheard;
    std::vector<int> awaited;
    for (const Transfer* transfer : open) {
      const auto found = heard_.find({transfer->request.peer, !transfer->head.sends, transfer->head.number});
      if (found == heard_.end()) {
        unheard.push_back(transfer);
        awaited.push_back(transfer->request.peer);
        continue;
      }
      absl::Status posted = PostBytes(*transfer, found->second, flight);
      heard_.erase(found);
      if (posted.code() == absl::StatusCode::kUnavailable) return posted;
      if (result.ok()) result = std::move(posted);
    }
    open = std::move(unheard);
    if (!open.empty()) ARMATURE_RETURN_IF_ERROR(AwaitHead(awaited, deadline), "messages");
  }
  ARMATURE_RETURN_IF_ERROR(transport_.Wait(batch.heads, deadline), "messages");
  ARMATURE_RETURN_IF_ERROR(transport_.Wait(flight, deadline), "messages");
  return result;
}

absl::Status GlooMessages::AwaitHead(absl::Span<const int> awaited, absl::Time deadline) {
  Head head;
  ARMATURE_ASSIGN_OR_RETURN(
      int peer, transport_.ReceiveFromAny({reinterpret_cast<char*>(&head), sizeof(head)}, kHeadSlot, awaited,
                                          deadline));
  heard_[{peer, head.sends, head.number}] = head;
  return absl::OkStatus();
}

absl::Status GlooMessages::PostBytes(const Transfer& transfer, const Head& theirs,
                                     GlooTransport::Flight& flight) {
  const int peer = transfer.request.peer;
  const bool sends = transfer.head.sends;
  ARMATURE_RETURN_IF_ERROR(sends ? CheckSame(rank_, transfer.head, peer, theirs)
                                 : CheckSame(peer, theirs, rank_, transfer.head));
  const BufferView& data = transfer.request.data;
  (sends ? counters_.bytes_sent : counters_.bytes_received)
      .fetch_add(data.size_bytes(), std::memory_order_relaxed);
  const Packet packet = {sends ? Direction::kSend : Direction::kReceive,
                         peer,
                         {static_cast<char*>(data.data), data.size_bytes()}};
  return transport_.Post({&packet, 1}, kBytesSlot + transfer.head.number, flight);
}

// Messages of a rank to itself match within one group.
absl::Status GlooMessages::FinishWithSelf(Batch& batch) {
  std::vector<const Transfer*> sends, receives;
  for (const Transfer& transfer : batch.transfers) {
    if (transfer.request.peer == rank_) (transfer.head.sends ? sends : receives).push_back(&transfer);
  }
  if (sends.size() != receives.size()) {
    return absl::InvalidArgumentError(absl::StrCat("messages: rank ", rank_, " sends itself ", sends.size(),
                                                   " and receives ", receives.size(), " in one group"));
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    ARMATURE_RETURN_IF_ERROR(CheckSame(rank_, sends[i]->head, rank_, receives[i]->head));
    const BufferView &from = sends[i]->request.data, &to = receives[i]->request.data;
    if (from.count > 0) std::memcpy(to.data, from.data, static_cast<size_t>(from.size_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace comm
}  // namespace armature
