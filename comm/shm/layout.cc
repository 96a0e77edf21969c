#include "armature/comm/shm/layout.h"

namespace armature {
namespace comm {
namespace {

constexpr int64_t kGroupBytes = 4096;
static_assert(sizeof(FailureRecord) <= kGroupBytes, "the group's page");

int64_t RoundUp(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

int64_t CallBytes(int64_t size) { return RoundUp(static_cast<int64_t>(sizeof(Header)) + 2 * size * 8, 64); }
int64_t ChannelBytes(int64_t size) {
  return static_cast<int64_t>(sizeof(Channel)) + ShmLayout::RingBytes(static_cast<int>(size));
}
int64_t ResultBytes(int64_t size) { return ShmLayout::InputBytes(static_cast<int>(size)) / size + 64; }

// Where each part begins.
int64_t Words(int64_t) { return kGroupBytes; }
int64_t Doorbells(int64_t size) { return Words(size) + size * static_cast<int64_t>(sizeof(StepWord)); }
int64_t Calls(int64_t size) { return Doorbells(size) + size * static_cast<int64_t>(sizeof(Doorbell)); }
int64_t Channels(int64_t size) { return RoundUp(Calls(size) + 2 * size * CallBytes(size), 64); }
int64_t Inputs(int64_t size) { return RoundUp(Channels(size) + size * size * ChannelBytes(size), 4096); }
int64_t Results(int64_t size) {
  return Inputs(size) + 2 * size * ShmLayout::InputBytes(static_cast<int>(size));
}
int64_t End(int64_t size) { return Results(size) + 2 * size * RoundUp(ResultBytes(size), 64); }

}  // namespace

ShmLayout::ShmLayout(char* base, int size) : base_(base), size_(size) {}

int64_t ShmLayout::SizeBytes(int size) { return RoundUp(End(size), 4096); }
int64_t ShmLayout::RingBytes(int size) { return size <= 4 ? int64_t{256} << 10 : int64_t{32} << 10; }
int64_t ShmLayout::InputBytes(int size) { return RoundUp(int64_t{128} << 10, 64 * size); }

absl::Span<StepWord> ShmLayout::words() const {
  return {reinterpret_cast<StepWord*>(base_ + Words(size_)), static_cast<size_t>(size_)};
}

Doorbell& ShmLayout::doorbell(int rank) const {
  return reinterpret_cast<Doorbell*>(base_ + Doorbells(size_))[rank];
}

char* ShmLayout::call(int rank, uint64_t sequence) const {
  return base_ + Calls(size_) + (2 * rank + static_cast<int64_t>(sequence % 2)) * CallBytes(size_);
}

Header& ShmLayout::header(int rank, uint64_t sequence) const {
  return *reinterpret_cast<Header*>(call(rank, sequence));
}

absl::Span<int64_t> ShmLayout::sends(int rank, uint64_t sequence) const {
  return {reinterpret_cast<int64_t*>(call(rank, sequence) + sizeof(Header)), static_cast<size_t>(size_)};
}

absl::Span<int64_t> ShmLayout::receives(int rank, uint64_t sequence) const {
  return {sends(rank, sequence).data() + size_, static_cast<size_t>(size_)};
}

Channel& ShmLayout::channel(int from, int to) const {
  return *reinterpret_cast<Channel*>(base_ + Channels(size_) + (from * size_ + to) * ChannelBytes(size_));
}

char* ShmLayout::ring(int from, int to) const {
  return reinterpret_cast<char*>(&channel(from, to)) + sizeof(Channel);
}

char* ShmLayout::input(int rank, uint64_t step) const {
  return base_ + Inputs(size_) +
         (2 * rank + static_cast<int64_t>(step % 2)) * InputBytes(static_cast<int>(size_));
}

char* ShmLayout::result(int rank, uint64_t step) const {
  return base_ + Results(size_) +
         (2 * rank + static_cast<int64_t>(step % 2)) * RoundUp(ResultBytes(size_), 64);
}

}  // namespace comm
}  // namespace armature
