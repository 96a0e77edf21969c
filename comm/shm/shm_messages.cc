#include "armature/comm/shm/shm_messages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/futex.h"

namespace armature {
namespace comm {
namespace {

using Transfer = ShmMessages::Transfer;
using Kind = PointToPoint::Kind;

constexpr absl::Duration kLivenessInterval = absl::Milliseconds(50);
// Smaller pieces than a ring let both sides copy at once.
constexpr int64_t kPieceBytes = 32 << 10;

bool Agrees(const Channel& channel) {
  return channel.offered_count == channel.answered_count && channel.offered_dtype == channel.answered_dtype;
}

}  // namespace

ShmMessages::ShmMessages(const ShmLayout& layout, Lockstep& lockstep, Lockstep::Lives lives,
                         ShmCounters& counters, int rank, int size)
    : layout_(layout),
      lockstep_(lockstep),
      lives_(std::move(lives)),
      counters_(counters),
      rank_(rank),
      ring_bytes_(ShmLayout::RingBytes(size)),
      sends_(size),
      receives_(size),
      sends_done_(size),
      receives_done_(size) {}

std::vector<Transfer> ShmMessages::Number(absl::Span<const PointToPoint> requests) {
  std::vector<Transfer> transfers;
  for (const PointToPoint& request : requests) {
    Transfer transfer;
    transfer.request = request;
    transfer.number = (request.kind == Kind::kSend ? sends_ : receives_)[request.peer]++;
    transfers.push_back(std::move(transfer));
  }
  return transfers;
}

absl::Status ShmMessages::Finish(absl::Span<Transfer> transfers, absl::Time deadline) {
  Doorbell& bell = layout_.doorbell(rank_);
  for (;;) {
    ARMATURE_RETURN_IF_ERROR(lockstep_.failure());
    const uint32_t rings = bell.rings.load();
    bool moved = false, done = true;
    for (Transfer& transfer : transfers) {
      moved = Advance(transfer) || moved;
      done = done && transfer.state == Transfer::State::kDone;
    }
    if (done) break;
    if (moved) continue;
    const absl::Duration left = deadline - absl::Now();
    if (!lockstep_.WaitChange(bell.rings, bell.sleepers, rings, std::min(left, kLivenessInterval))) {
      ARMATURE_RETURN_IF_ERROR(CheckPeers(transfers, deadline));
    }
  }
  for (const Transfer& transfer : transfers) ARMATURE_RETURN_IF_ERROR(transfer.result);
  return absl::OkStatus();
}

absl::Status ShmMessages::CheckPeers(absl::Span<const Transfer> transfers, absl::Time deadline) const {
  const bool late = absl::Now() >= deadline;
  for (const Transfer& transfer : transfers) {
    const int peer = transfer.request.peer;
    const absl::string_view verb = transfer.request.kind == Kind::kSend ? "send" : "receive";
    if (transfer.state == Transfer::State::kDone || peer == rank_) continue;
    if (lockstep_.HasLeft(peer)) {
      return absl::UnavailableError(absl::StrCat(verb, ": rank ", peer, " has left the group"));
    }
    if (!lives_(peer)) {
      return absl::UnavailableError(absl::StrCat(verb, ": the process of rank ", peer, " has died"));
    }
    if (late)
      return absl::DeadlineExceededError(absl::StrCat(verb, ": rank ", peer, " did not take part in time"));
  }
  return late ? absl::DeadlineExceededError("a message to this rank itself has no partner")
              : absl::OkStatus();
}

void ShmMessages::Ring(int rank) const {
  Doorbell& bell = layout_.doorbell(rank);
  bell.rings.fetch_add(1);
  if (bell.sleepers.load() > 0) FutexWakeAll(bell.rings);
}

bool ShmMessages::Advance(Transfer& transfer) {
  const int peer = transfer.request.peer;
  const bool send = transfer.request.kind == Kind::kSend;
  uint32_t& done = (send ? sends_done_ : receives_done_)[peer];
  if (transfer.state == Transfer::State::kDone || done != transfer.number) return false;
  const int from = send ? rank_ : peer, to = send ? peer : rank_;
  Channel& channel = layout_.channel(from, to);
  char* const ring = layout_.ring(from, to);
  const bool moved = send ? AdvanceSend(transfer, channel, ring) : AdvanceReceive(transfer, channel, ring);
  if (transfer.state == Transfer::State::kDone) ++done;
  if (moved) Ring(peer);
  return moved;
}

bool ShmMessages::AdvanceSend(Transfer& transfer, Channel& channel, char* ring) {
  const BufferView& data = transfer.request.data;
  if (transfer.state == Transfer::State::kWaiting) {
    // The receiver may still be at the bytes of the message before.
    if (channel.read.load() != channel.written.load(std::memory_order_relaxed)) return false;
    channel.offered_count = data.count;
    channel.offered_dtype = data.dtype;
    channel.offered.store(transfer.number + 1);
    transfer.state = Transfer::State::kOffered;
    return true;
  }
  if (transfer.state == Transfer::State::kOffered) {
    if (channel.answered.load() != transfer.number + 1) return false;
    transfer.state = Transfer::State::kMoving;
    if (!Agrees(channel)) transfer.result = Disagree(rank_, transfer.request.peer, channel);
  }
  const int64_t left = transfer.result.ok() ? data.size_bytes() - transfer.moved : 0;
  if (left == 0) {
    transfer.state = Transfer::State::kDone;
    return true;
  }
  const int64_t written = static_cast<int64_t>(channel.written.load(std::memory_order_relaxed));
  const int64_t free = ring_bytes_ - (written - static_cast<int64_t>(channel.read.load()));
  const int64_t place = written % ring_bytes_;
  const int64_t bytes = std::min({left, free, ring_bytes_ - place, kPieceBytes});
  if (bytes == 0) return false;
  std::memcpy(ring + place, static_cast<const char*>(data.data) + transfer.moved, static_cast<size_t>(bytes));
  channel.written.store(static_cast<uint64_t>(written + bytes));
  transfer.moved += bytes;
  counters_.bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

bool ShmMessages::AdvanceReceive(Transfer& transfer, Channel& channel, char* ring) {
  const BufferView& data = transfer.request.data;
  if (transfer.state == Transfer::State::kWaiting) {
    if (channel.offered.load() != transfer.number + 1) return false;
    channel.answered_count = data.count;
    channel.answered_dtype = data.dtype;
    transfer.state = Transfer::State::kMoving;
    if (!Agrees(channel)) transfer.result = Disagree(transfer.request.peer, rank_, channel);
    channel.answered.store(transfer.number + 1);
    return true;
  }
  const int64_t left = transfer.result.ok() ? data.size_bytes() - transfer.moved : 0;
  if (left == 0) {
    transfer.state = Transfer::State::kDone;
    return true;
  }
  const int64_t read = static_cast<int64_t>(channel.read.load(std::memory_order_relaxed));
  const int64_t ready = static_cast<int64_t>(channel.written.load()) - read;
  const int64_t place = read % ring_bytes_;
  const int64_t bytes = std::min({left, ready, ring_bytes_ - place, kPieceBytes});
  if (bytes == 0) return false;
  std::memcpy(static_cast<char*>(data.data) + transfer.moved, ring + place, static_cast<size_t>(bytes));
  channel.read.store(static_cast<uint64_t>(read + bytes));
  transfer.moved += bytes;
  counters_.bytes_received.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

absl::Status ShmMessages::Disagree(int from, int to, const Channel& channel) const {
  return absl::InvalidArgumentError(absl::StrCat(
      "ranks disagree: rank ", from, " sends ", channel.offered_count, " ", Name(channel.offered_dtype),
      ", rank ", to, " receives ", channel.answered_count, " ", Name(channel.answered_dtype)));
}

}  // namespace comm
}  // namespace armature
