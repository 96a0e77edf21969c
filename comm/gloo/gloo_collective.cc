#include "armature/comm/gloo/gloo_collective.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/comm/header.h"
#include "armature/comm/reduce_kernels.h"

namespace armature {
namespace comm {
namespace {

using Direction = Packet::Direction;

constexpr int64_t kChunkBytes = int64_t{8} << 20;
constexpr int64_t kBroadcastInParts = int64_t{64} << 10;

Region Elements(char* base, Range range, int64_t width) {
  return {base + range.begin * width, (range.end - range.begin) * width};
}

}  // namespace

GlooCollective::GlooCollective(GlooTransport& transport, GlooCounters& counters)
    : transport_(transport), counters_(counters), rank_(transport.rank()), size_(transport.size()) {
  const size_t bytes = sizeof(Header) + 2 * sizeof(int64_t) * static_cast<size_t>(size_);
  headers_.assign(static_cast<size_t>(size_), std::string(bytes, '\0'));
}

absl::Status GlooCollective::Run(const Operation& operation, absl::Time deadline) {
  ++sequence_;
  ARMATURE_RETURN_IF_ERROR(ExchangeHeaders(operation, deadline));
  switch (operation.verb) {
    case Verb::kBarrier:
      return absl::OkStatus();
    case Verb::kReduceScatter:
      return ReduceScatter(operation, deadline);
    case Verb::kAllReduce:
    case Verb::kReduce:
      return ReduceWhole(operation, deadline);
    case Verb::kBroadcast:
      if (size_ > 2 && operation.count * SizeOf(operation.dtype) > kBroadcastInParts) {
        return BroadcastInParts(operation, deadline);
      }
      return Move(operation, deadline);
    default:
      return Move(operation, deadline);
  }
}

absl::Status GlooCollective::ExchangeHeaders(const Operation& operation, absl::Time deadline) {
  const auto parts = [this](int rank) {
    return absl::MakeSpan(reinterpret_cast<int64_t*>(&headers_[rank][sizeof(Header)]),
                          2 * static_cast<size_t>(size_));
  };
  const Header header = MakeHeader(operation, sequence_);
  std::memcpy(&headers_[rank_][0], &header, sizeof(header));
  const size_t size = static_cast<size_t>(size_);
  if (header.uneven) WriteParts(operation, parts(rank_).first(size), parts(rank_).last(size));
  std::vector<Packet> packets;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const int64_t bytes = static_cast<int64_t>(headers_[peer].size());
    packets.push_back({Direction::kSend, peer, {&headers_[rank_][0], bytes}});
    packets.push_back({Direction::kReceive, peer, {&headers_[peer][0], bytes}});
  }
  counters_.steps.fetch_add(1, std::memory_order_relaxed);
  ARMATURE_RETURN_IF_ERROR(transport_.Exchange(packets, ++slot_, deadline), Describe(header));
  return Agree(size_, [&](int rank) {
    return Call{reinterpret_cast<const Header*>(headers_[rank].data()), parts(rank).first(size),
                parts(rank).last(size)};
  });
}

absl::Status GlooCollective::Exchange(const std::vector<Packet>& packets, absl::Time deadline) {
  for (const Packet& packet : packets) {
    auto& counter = packet.direction == Direction::kSend ? counters_.bytes_sent : counters_.bytes_received;
    counter.fetch_add(packet.region.bytes, std::memory_order_relaxed);
  }
  counters_.steps.fetch_add(1, std::memory_order_relaxed);
  const Header& header = *reinterpret_cast<const Header*>(headers_[rank_].data());
  return AddContext(transport_.Exchange(packets, ++slot_, deadline), Describe(header));
}

absl::Status GlooCollective::Move(const Operation& operation, absl::Time deadline) {
  std::vector<Packet> packets;
  for (int step = 1; step < size_; ++step) {
    const int to = (rank_ + step) % size_, from = (rank_ + size_ - step) % size_;
    packets.push_back({Direction::kSend, to, Source(operation, rank_, to)});
    packets.push_back({Direction::kReceive, from, Target(operation, from, rank_)});
  }
  ARMATURE_RETURN_IF_ERROR(Exchange(packets, deadline));
  const Region source = Source(operation, rank_, rank_), target = Target(operation, rank_, rank_);
  if (target.bytes > 0 && source.data != target.data) {
    std::memcpy(target.data, source.data, static_cast<size_t>(target.bytes));
  }
  return absl::OkStatus();
}

absl::Status GlooCollective::BroadcastInParts(const Operation& operation, absl::Time deadline) {
  const int64_t width = SizeOf(operation.dtype);
  const auto part = [&](int rank) {
    return Elements(operation.out, ReducedPart(operation.count, width, rank, size_), width);
  };
  std::vector<Packet> scatter, gather;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (rank_ == operation.root) {
      scatter.push_back({Direction::kSend, peer, part(peer)});
      gather.push_back({Direction::kSend, peer, part(rank_)});
      continue;
    }
    if (peer == operation.root) scatter.push_back({Direction::kReceive, peer, part(rank_)});
    if (peer != operation.root) gather.push_back({Direction::kSend, peer, part(rank_)});
    gather.push_back({Direction::kReceive, peer, part(peer)});
  }
  ARMATURE_RETURN_IF_ERROR(Exchange(scatter, deadline));
  return Exchange(gather, deadline);
}

template <class ForPeer>
absl::Status GlooCollective::ReducePart(const Operation& operation, Region own, char* target,
                                        ForPeer for_peer, absl::Time deadline) {
  scratch_.resize(std::max(scratch_.size(), static_cast<size_t>(own.bytes * size_)));
  std::vector<Packet> packets;
  absl::InlinedVector<const void*, 16> sources;
  for (int peer = 0; peer < size_; ++peer) {
    char* const received = scratch_.data() + peer * own.bytes;
    sources.push_back(peer == rank_ ? own.data : received);
    if (peer == rank_) continue;
    packets.push_back({Direction::kSend, peer, for_peer(peer)});
    packets.push_back({Direction::kReceive, peer, {received, own.bytes}});
  }
  ARMATURE_RETURN_IF_ERROR(Exchange(packets, deadline));
  void* const to = target;
  ReduceInto(operation.dtype, operation.reduce_op, sources, {&to, 1}, own.bytes / SizeOf(operation.dtype));
  return absl::OkStatus();
}

absl::Status GlooCollective::ReduceScatter(const Operation& operation, absl::Time deadline) {
  const int64_t piece = kChunkBytes / size_ / 64 * 64;
  const auto piece_of = [&](int receiver, int64_t begin) {
    const Region whole = Source(operation, rank_, receiver);
    const int64_t from = std::min(begin, whole.bytes);
    return Region{whole.data + from, std::min(piece, whole.bytes - from)};
  };
  int64_t longest = 0;
  for (int rank = 0; rank < size_; ++rank) longest = std::max(longest, Source(operation, rank_, rank).bytes);
  for (int64_t begin = 0; begin < longest; begin += piece) {
    ARMATURE_RETURN_IF_ERROR(ReducePart(
        operation, piece_of(rank_, begin), operation.out + begin,
        [&](int peer) { return piece_of(peer, begin); }, deadline));
  }
  return absl::OkStatus();
}

absl::Status GlooCollective::ReduceWhole(const Operation& operation, absl::Time deadline) {
  const int64_t chunk = kChunkBytes / SizeOf(operation.dtype);
  for (int64_t begin = 0; begin < operation.count; begin += chunk) {
    ARMATURE_RETURN_IF_ERROR(
        ReduceChunk(operation, {begin, std::min(begin + chunk, operation.count)}, deadline));
  }
  return absl::OkStatus();
}

// Each rank reduces its part of the chunk; then all, or the root, gather the parts.
absl::Status GlooCollective::ReduceChunk(const Operation& operation, Range chunk, absl::Time deadline) {
  const int64_t width = SizeOf(operation.dtype);
  const bool all = operation.verb == Verb::kAllReduce;
  const auto part = [&](char* base, int rank) {
    const Range range = ReducedPart(chunk.end - chunk.begin, width, rank, size_);
    return Elements(base, {chunk.begin + range.begin, chunk.begin + range.end}, width);
  };
  const Region own = part(operation.in, rank_);
  std::vector<char> sum;  // where this rank has no place for its part of the result
  if (!all && rank_ != operation.root) sum.resize(static_cast<size_t>(own.bytes));
  char* const target = sum.empty() && operation.out != nullptr ? part(operation.out, rank_).data : sum.data();
  ARMATURE_RETURN_IF_ERROR(ReducePart(
      operation, own, target, [&](int peer) { return part(operation.in, peer); }, deadline));
  std::vector<Packet> packets;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (all || peer == operation.root) packets.push_back({Direction::kSend, peer, {target, own.bytes}});
    if (all || rank_ == operation.root)
      packets.push_back({Direction::kReceive, peer, part(operation.out, peer)});
  }
  return Exchange(packets, deadline);
}

}  // namespace comm
}  // namespace armature
