// Lockstep: how ranks that share memory wait for each other, as threads (inproc) or as processes (shared
// memory).
//
// Each rank counts its steps in a word of its own; Arrive ends a step and waits until every other rank has
// ended it too. Waiting spins for a few microseconds where every rank can have a processor, and then sleeps.
#ifndef ARMATURE_COMM_LOCKSTEP_H_
#define ARMATURE_COMM_LOCKSTEP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace armature {
namespace comm {

// One rank's word. All zero is a good start.
struct alignas(64) StepWord {
  std::atomic<uint32_t> progress{0};  // steps << 2 | left << 1 | failed
  std::atomic<uint32_t> sleepers{0};
};

// Why the group failed: written once, by whoever was first.
struct FailureRecord {
  std::atomic<uint32_t> claimed{0};
  std::atomic<uint32_t> ready{0};
  int32_t code = 0;
  char message[500] = {};
};

// One rank's view. Arrive belongs to one thread at a time; Fail and failure to any.
class Lockstep {
 public:
  // Empty, or answers whether a rank that keeps others waiting still lives; asked a few times a second.
  using Lives = std::function<bool(int rank)>;

  // `words` has one entry for each rank; `words` and `record` outlive this object.
  Lockstep(int rank, absl::Span<StepWord> words, FailureRecord* record, Lives lives);

  // Errors: the group's failure; DeadlineExceeded or Unavailable naming the ranks that are missing, which
  // does not fail the group by itself. `doing` describes the operation for the message and is called only on
  // an error.
  absl::Status Arrive(absl::Time deadline, absl::FunctionRef<std::string()> doing);

  // Makes `why` the group's failure if it has none yet, and wakes everyone.
  void Fail(const absl::Status& why);
  // OK while the group is open. Cheap.
  absl::Status failure() const;
  bool failed() const;

  // This rank takes no further steps: peers that wait for one get Unavailable.
  void Leave();

  // True once `peer` has called Leave.
  bool HasLeft(int peer) const;

  // Waits until `word` is no longer `value`, or until `limit` has passed; spins first. Returns false on the
  // latter.
  bool WaitChange(const std::atomic<uint32_t>& word, std::atomic<uint32_t>& sleepers, uint32_t value,
                  absl::Duration limit) const;

 private:
  absl::Status RecordedFailure() const;
  bool Reached(int peer, uint32_t target) const;
  absl::Status Await(int peer, uint32_t target, absl::Time deadline, absl::FunctionRef<std::string()> doing);
  std::string Missing(uint32_t target) const;

  const int rank_;
  const absl::Span<StepWord> words_;
  FailureRecord* const record_;
  const Lives lives_;
  const int spins_;
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_LOCKSTEP_H_
