// ShmCollective: one rank's part in the collectives of a group that shares a segment.
#ifndef ARMATURE_COMM_SHM_SHM_COLLECTIVE_H_
#define ARMATURE_COMM_SHM_SHM_COLLECTIVE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "armature/comm/lockstep.h"
#include "armature/comm/operation.h"
#include "armature/comm/shm/layout.h"

namespace armature {
namespace comm {

struct ShmCounters {
  std::atomic<int64_t> bytes_sent{0};
  std::atomic<int64_t> bytes_received{0};
  std::atomic<int64_t> steps{0};
};

// Thread-compatible.
class ShmCollective {
 public:
  // All must outlive this object.
  ShmCollective(const ShmLayout& layout, Lockstep& lockstep, ShmCounters& counters, int rank, int size);

  // Errors: InvalidArgument if the ranks disagree; as Lockstep::Arrive.
  absl::Status Run(const Operation& operation, absl::Time deadline);

 private:
  // Ends a step; after the first one of an operation the ranks must agree.
  absl::Status Meet(const Operation& operation, absl::Time deadline, bool first);
  void Show(const Operation& operation);
  absl::Status Agree() const;

  absl::Status Move(const Operation& operation, absl::Time deadline);
  absl::Status ReduceScatter(const Operation& operation, absl::Time deadline);
  absl::Status ReduceWhole(const Operation& operation, absl::Time deadline);

  // One round of each.
  void Offer(const Operation& operation, int64_t round);
  void Take(const Operation& operation, int64_t round);
  void ReducePortion(const Operation& operation, int64_t round);
  void OfferForeignParts(const Operation& operation, Range chunk);
  void ReduceOwnPart(const Operation& operation, Range chunk);
  void TakeResults(const Operation& operation, Range chunk);

  int64_t Rounds(const Operation& operation) const;
  bool Divided(const Operation& operation) const;
  int64_t PieceBytes(const Operation& operation) const;
  Range OwnPart(const Operation& operation, Range chunk, int rank) const;

  void CopyIn(char* to, const char* from, int64_t bytes);
  void CopyOut(char* to, const char* from, int64_t bytes);

  const ShmLayout& layout_;
  Lockstep& lockstep_;
  ShmCounters& counters_;
  const int rank_;
  const int size_;
  uint64_t sequence_ = 0;  // collectives begun
  uint64_t step_ = 0;      // steps ended, the same on every rank: says which half of the slots is in use
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_SHM_SHM_COLLECTIVE_H_
