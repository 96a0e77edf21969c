// ShmLayout: what lies where in the segment of a group.
//
//   group       why it failed
//   words       a StepWord for each rank
//   doorbells   a word for each rank: rung when a message channel of its has moved
//   calls       two shown calls for each rank, used in turns, with room for lists of parts
//   channels    one for each pair of ranks: the messages from one to the other
//   inputs      two for each rank, used in turns by step: what it shows its peers
//   results     two for each rank, used in turns by step: what it has reduced
#ifndef ARMATURE_COMM_SHM_LAYOUT_H_
#define ARMATURE_COMM_SHM_LAYOUT_H_

#include <atomic>
#include <cstdint>

#include "absl/types/span.h"
#include "armature/comm/header.h"
#include "armature/comm/lockstep.h"

namespace armature {
namespace comm {

struct alignas(64) Doorbell {
  std::atomic<uint32_t> rings{0};
  std::atomic<uint32_t> sleepers{0};
};

// The messages from one rank to another, one at a time: the sender offers, the receiver answers, and if both
// agree the bytes go through a ring.
struct alignas(64) Channel {
  // Written by the sender.
  std::atomic<uint32_t> offered{0};  // messages
  std::atomic<uint64_t> written{0};  // bytes, ever
  int64_t offered_count = 0;
  DType offered_dtype = DType::kF32;
  // Written by the receiver.
  alignas(64) std::atomic<uint32_t> answered{0};
  std::atomic<uint64_t> read{0};
  int64_t answered_count = 0;
  DType answered_dtype = DType::kF32;
};

class ShmLayout {
 public:
  ShmLayout(char* base, int size);

  // Of a group of `size` ranks.
  static int64_t SizeBytes(int size);
  static int64_t RingBytes(int size);
  // Of one input; a multiple of 64 * size.
  static int64_t InputBytes(int size);

  FailureRecord* failure() const { return reinterpret_cast<FailureRecord*>(base_); }
  absl::Span<StepWord> words() const;
  Doorbell& doorbell(int rank) const;
  Header& header(int rank, uint64_t sequence) const;
  absl::Span<int64_t> sends(int rank, uint64_t sequence) const;
  absl::Span<int64_t> receives(int rank, uint64_t sequence) const;
  Channel& channel(int from, int to) const;
  char* ring(int from, int to) const;
  char* input(int rank, uint64_t step) const;
  char* result(int rank, uint64_t step) const;

 private:
  char* call(int rank, uint64_t sequence) const;

  char* const base_;
  const int64_t size_;
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_SHM_LAYOUT_H_
