#include "armature/comm/shm/shm_collective.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "armature/base/status_macros.h"
#include "armature/comm/reduce_kernels.h"

// Why one meeting for each chunk is enough: what a rank shows in step g is read by its peers between meetings
// g and g + 1, and the same half is written again only after meeting g + 1, for step g + 2.

namespace armature {
namespace comm {
namespace {

int64_t CeilDivide(int64_t value, int64_t by) { return (value + by - 1) / by; }

// Bytes [round * piece, (round + 1) * piece) of a region.
Region Piece(const Region& region, int64_t round, int64_t piece) {
  const int64_t begin = std::min(round * piece, region.bytes);
  return {region.data + begin, std::min(piece, region.bytes - begin)};
}

}  // namespace

ShmCollective::ShmCollective(const ShmLayout& layout, Lockstep& lockstep, ShmCounters& counters, int rank,
                             int size)
    : layout_(layout), lockstep_(lockstep), counters_(counters), rank_(rank), size_(size) {}

void ShmCollective::CopyIn(char* to, const char* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  counters_.bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
}

void ShmCollective::CopyOut(char* to, const char* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  counters_.bytes_received.fetch_add(bytes, std::memory_order_relaxed);
}

void ShmCollective::Show(const Operation& operation) {
  Header& header = layout_.header(rank_, sequence_);
  header = MakeHeader(operation, sequence_);
  if (!header.uneven) return;
  WriteParts(operation, layout_.sends(rank_, sequence_), layout_.receives(rank_, sequence_));
}

absl::Status ShmCollective::Agree() const {
  return comm::Agree(size_, [this](int rank) {
    return Call{&layout_.header(rank, sequence_), layout_.sends(rank, sequence_),
                layout_.receives(rank, sequence_)};
  });
}

absl::Status ShmCollective::Meet(const Operation& operation, absl::Time deadline, bool first) {
  counters_.steps.fetch_add(1, std::memory_order_relaxed);
  ARMATURE_RETURN_IF_ERROR(
      lockstep_.Arrive(deadline, [&] { return Describe(MakeHeader(operation, sequence_)); }));
  ++step_;
  return first ? Agree() : absl::OkStatus();
}

absl::Status ShmCollective::Run(const Operation& operation, absl::Time deadline) {
  ++sequence_;
  Show(operation);
  // Wrong arguments can't be carried out; the peers learn of them when they meet.
  if (operation.verb == Verb::kBarrier || !operation.argument_error.ok())
    return Meet(operation, deadline, true);
  if (operation.verb == Verb::kReduceScatter) return ReduceScatter(operation, deadline);
  if (IsReduction(operation.verb)) return ReduceWhole(operation, deadline);
  return Move(operation, deadline);
}

// True if each peer gets bytes of its own; false if all that get any get the same.
bool ShmCollective::Divided(const Operation& operation) const {
  return operation.verb == Verb::kScatter || operation.verb == Verb::kAllToAll ||
         operation.verb == Verb::kReduceScatter;
}

int64_t ShmCollective::PieceBytes(const Operation& operation) const {
  return Divided(operation) ? ShmLayout::InputBytes(size_) / size_ : ShmLayout::InputBytes(size_);
}

// Known only after the ranks have met, for all-to-all with unequal parts.
int64_t ShmCollective::Rounds(const Operation& operation) const {
  int64_t longest = 0;
  for (int rank = 0; rank < size_; ++rank) {
    if (operation.verb == Verb::kAllToAll && !operation.in_parts.uniform()) {
      for (int64_t count : layout_.sends(rank, sequence_)) longest = std::max(longest, count);
    } else if (operation.verb == Verb::kAllGather) {
      longest = std::max(longest, operation.out_parts.count(rank));
    } else if (operation.verb == Verb::kReduceScatter) {
      longest = std::max(longest, operation.in_parts.count(rank));
    } else {
      longest = operation.count;
    }
  }
  return std::max<int64_t>(1, CeilDivide(longest * SizeOf(operation.dtype), PieceBytes(operation)));
}

absl::Status ShmCollective::Move(const Operation& operation, absl::Time deadline) {
  int64_t rounds = 1;
  for (int64_t round = 0; round < rounds; ++round) {
    Offer(operation, round);
    ARMATURE_RETURN_IF_ERROR(Meet(operation, deadline, round == 0));
    if (round == 0) rounds = Rounds(operation);
    Take(operation, round);
  }
  const Region source = Source(operation, rank_, rank_), target = Target(operation, rank_, rank_);
  if (target.bytes > 0 && source.data != target.data) {
    std::memcpy(target.data, source.data, static_cast<size_t>(target.bytes));
  }
  return absl::OkStatus();
}

void ShmCollective::Offer(const Operation& operation, int64_t round) {
  const int64_t piece_bytes = PieceBytes(operation);
  char* const input = layout_.input(rank_, step_ + 1);
  for (int receiver = 0; receiver < size_; ++receiver) {
    if (receiver == rank_) continue;
    const Region piece = Piece(Source(operation, rank_, receiver), round, piece_bytes);
    if (Divided(operation)) {
      CopyIn(input + receiver * piece_bytes, piece.data, piece.bytes);
    } else if (piece.bytes > 0) {
      CopyIn(input, piece.data, piece.bytes);
      break;
    }
  }
}

void ShmCollective::Take(const Operation& operation, int64_t round) {
  const int64_t piece_bytes = PieceBytes(operation);
  for (int sender = 0; sender < size_; ++sender) {
    if (sender == rank_) continue;
    const Region piece = Piece(Target(operation, sender, rank_), round, piece_bytes);
    const char* const input = layout_.input(sender, step_);
    CopyOut(piece.data, Divided(operation) ? input + rank_ * piece_bytes : input, piece.bytes);
  }
}

absl::Status ShmCollective::ReduceScatter(const Operation& operation, absl::Time deadline) {
  int64_t rounds = 1;
  for (int64_t round = 0; round < rounds; ++round) {
    Offer(operation, round);
    ARMATURE_RETURN_IF_ERROR(Meet(operation, deadline, round == 0));
    if (round == 0) rounds = Rounds(operation);
    ReducePortion(operation, round);
  }
  return absl::OkStatus();
}

void ShmCollective::ReducePortion(const Operation& operation, int64_t round) {
  const int64_t piece_bytes = PieceBytes(operation);
  const Region own = Piece(Source(operation, rank_, rank_), round, piece_bytes);
  absl::InlinedVector<const void*, 16> sources;
  for (int peer = 0; peer < size_; ++peer) {
    sources.push_back(peer == rank_ ? own.data : layout_.input(peer, step_) + rank_ * piece_bytes);
  }
  void* const target = operation.out + round * piece_bytes;
  ReduceInto(operation.dtype, operation.reduce_op, sources, {&target, 1},
             own.bytes / SizeOf(operation.dtype));
  counters_.bytes_received.fetch_add(own.bytes * (size_ - 1), std::memory_order_relaxed);
}

// A chunk's inputs are shown while the results of the one before are taken: one meeting for both.
absl::Status ShmCollective::ReduceWhole(const Operation& operation, absl::Time deadline) {
  const int64_t chunk_count = ShmLayout::InputBytes(size_) / SizeOf(operation.dtype);
  const int64_t chunks = std::max<int64_t>(1, CeilDivide(operation.count, chunk_count));
  Range before = {0, 0};
  for (int64_t i = 0; i < chunks; ++i) {
    const Range chunk = {i * chunk_count, std::min((i + 1) * chunk_count, operation.count)};
    OfferForeignParts(operation, chunk);
    ARMATURE_RETURN_IF_ERROR(Meet(operation, deadline, i == 0));
    TakeResults(operation, before);
    ReduceOwnPart(operation, chunk);
    before = chunk;
  }
  ARMATURE_RETURN_IF_ERROR(Meet(operation, deadline, false));
  TakeResults(operation, before);
  return absl::OkStatus();
}

Range ShmCollective::OwnPart(const Operation& operation, Range chunk, int rank) const {
  const Range part = ReducedPart(chunk.end - chunk.begin, SizeOf(operation.dtype), rank, size_);
  return {chunk.begin + part.begin, chunk.begin + part.end};
}

void ShmCollective::OfferForeignParts(const Operation& operation, Range chunk) {
  const int64_t width = SizeOf(operation.dtype);
  const Range own = OwnPart(operation, chunk, rank_);
  char* const input = layout_.input(rank_, step_ + 1);
  CopyIn(input, operation.in + chunk.begin * width, (own.begin - chunk.begin) * width);
  CopyIn(input + (own.end - chunk.begin) * width, operation.in + own.end * width,
         (chunk.end - own.end) * width);
}

void ShmCollective::ReduceOwnPart(const Operation& operation, Range chunk) {
  const int64_t width = SizeOf(operation.dtype);
  const Range own = OwnPart(operation, chunk, rank_);
  absl::InlinedVector<const void*, 16> sources;
  for (int peer = 0; peer < size_; ++peer) {
    const char* const shown = layout_.input(peer, step_) + (own.begin - chunk.begin) * width;
    sources.push_back(peer == rank_ ? operation.in + own.begin * width : shown);
  }
  absl::InlinedVector<void*, 2> targets;
  const bool all = operation.verb == Verb::kAllReduce;
  if (all || rank_ == operation.root) targets.push_back(operation.out + own.begin * width);
  if (size_ > 1 && (all || rank_ != operation.root)) targets.push_back(layout_.result(rank_, step_));
  const int64_t count = own.end - own.begin;
  ReduceInto(operation.dtype, operation.reduce_op, sources, absl::MakeSpan(targets), count);
  counters_.bytes_received.fetch_add(count * width * (size_ - 1), std::memory_order_relaxed);
  if (targets.back() == layout_.result(rank_, step_)) {
    counters_.bytes_sent.fetch_add(count * width, std::memory_order_relaxed);
  }
}

// Of the step before the one that has just ended.
void ShmCollective::TakeResults(const Operation& operation, Range chunk) {
  if (operation.verb == Verb::kReduce && rank_ != operation.root) return;
  const int64_t width = SizeOf(operation.dtype);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const Range part = OwnPart(operation, chunk, peer);
    CopyOut(operation.out + part.begin * width, layout_.result(peer, step_ - 1),
            (part.end - part.begin) * width);
  }
}

}  // namespace comm
}  // namespace armature
