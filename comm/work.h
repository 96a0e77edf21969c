// Work: one operation that a communicator has accepted.
//
//   comm.AllReduce(view, ReduceOp::kSum).Wait(deadline);        // on the calling thread, at its lowest cost
//
//   Work bucket = comm.AllReduce(view, ReduceOp::kSum);         // beside the backward
//   bucket.Start();
//   ...
//   absl::Status status = bucket.Wait(deadline);
//
// Who executes: the operations of one communicator run in the order of the calls. On CPU backends an
// operation runs on the thread that waits for it (or for a later one), so a blocking call costs no hop to
// another thread. Start hands it and those before it to the communicator's own thread, which is made at the
// first Start and sleeps when it has nothing to do. On a GPU the operation is launched by the call itself,
// and Start does nothing.
//
// Sends and receives form a line of their own: they wait for their partner, never for a collective before
// them.
//
//   | state    | Start     | Wait(deadline)                                     | destroy            |
//   |----------|-----------|----------------------------------------------------|--------------------|
//   | accepted | → running | runs it here → done                                | as Start           |
//   | running  | no effect | until done; at the deadline the group fails → done | the result is lost |
//   | done     | no effect | the result, at once, any number of times           | ok                 |
//
// Memory: the buffers must live, and must not be touched, until the operation is done. A failed operation is
// done: no peer reads or writes the buffers after Wait returns, and their contents are unspecified.
#ifndef ARMATURE_COMM_WORK_H_
#define ARMATURE_COMM_WORK_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace armature {
namespace comm {

// What a backend puts behind a Work.
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  virtual void Start() = 0;
  virtual bool done() = 0;
  virtual absl::Status Wait(absl::Time deadline) = 0;
  virtual absl::Duration duration() { return absl::ZeroDuration(); }
};

// Thread-compatible. A moved-from or default-made Work is done and OK.
class Work {
 public:
  Work() = default;
  // An operation that is done already.
  explicit Work(absl::Status result) : result_(std::move(result)) {}
  explicit Work(std::shared_ptr<PendingWork> pending) : pending_(std::move(pending)) {}

  Work(Work&& other) noexcept;
  Work& operator=(Work&& other) noexcept;
  // Leaves the operation to run on: the peers count on it.
  ~Work();

  void Start();
  // True once Wait would return without waiting. Never blocks.
  bool done();
  // OK, or: DeadlineExceeded or Unavailable naming the rank; InvalidArgument if ranks disagreed, naming both
  // sides; Cancelled after an Abort, with its text and rank. All but InvalidArgument fail the whole group for
  // good.
  absl::Status Wait(absl::Time deadline = absl::InfiniteFuture());
  // Once it is done: how long it ran, from its turn to its end. Zero where the backend does not know.
  absl::Duration duration() { return pending_ == nullptr ? absl::ZeroDuration() : pending_->duration(); }

 private:
  std::shared_ptr<PendingWork> pending_;
  absl::Status result_;
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_WORK_H_
