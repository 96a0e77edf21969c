// Lane: a line of operations that run one after the other, on the threads that wait for them or on a thread
// of its own. See comm/work.h for what callers are promised.
#ifndef ARMATURE_COMM_LANE_H_
#define ARMATURE_COMM_LANE_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "armature/comm/work.h"

namespace armature {
namespace comm {

// One operation in a lane.
class Task {
 public:
  virtual ~Task() = default;
  // Called once, by any thread, never beside another task of the lane. Destroyed right after.
  virtual absl::Status Run(absl::Time deadline) = 0;
};

// Thread-safe.
class Lane {
 public:
  // `fail` must make the running task return soon. It is called with DeadlineExceeded when a waiter's
  // deadline passes while the lane's own thread runs the operation, and by Close.
  explicit Lane(std::function<void(absl::Status)> fail);
  // Close.
  ~Lane();

  Work Submit(std::unique_ptr<Task> task);

  // Ends the lane: tasks that have not begun are done with `why`, the running one is waited for, the thread
  // is joined.
  void Close(const absl::Status& why);

 private:
  class State;
  class Entry;
  std::shared_ptr<State> state_;  // shared with the Works, which may outlive the lane
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_LANE_H_
