// Stream: an ordered queue of work on one device. Event: a point in one that another stream or the host waits
// for.
//
// The CPU's stream runs each kernel before the call returns, on its ThreadTeam; its events are always past.
// Code that is written against these two classes is also right on a GPU, where calls only enqueue.
#ifndef ARMATURE_TENSOR_STREAM_H_
#define ARMATURE_TENSOR_STREAM_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace armature {

class Event {
 public:
  virtual ~Event() = default;
  // Blocks the calling thread until the event has passed. Errors: those of the work before it.
  virtual absl::Status Synchronize() = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  // Blocks the calling thread until all enqueued work is done. Errors: the first one of that work.
  virtual absl::Status Synchronize() = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> Record() = 0;
  // Later work on this stream starts after `event`, which may belong to another stream of the same kind of
  // device.
  virtual absl::Status Wait(Event& event) = 0;
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_STREAM_H_
