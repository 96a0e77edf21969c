// CpuStream: runs each kernel at once, on the calling thread and its team.
#ifndef ARMATURE_TENSOR_CPU_CPU_STREAM_H_
#define ARMATURE_TENSOR_CPU_CPU_STREAM_H_

#include <memory>

#include "armature/base/thread_team.h"
#include "armature/tensor/stream.h"

namespace armature {

class CpuStream : public Stream {
 public:
  // `matmul_parts`: CpuOptions.
  explicit CpuStream(ThreadTeam& team, int matmul_parts = 0) : team_(team), matmul_parts_(matmul_parts) {}

  ThreadTeam& team() { return team_; }
  // How many parts a matrix product is cut into.
  int matmul_parts() const { return matmul_parts_ > 0 ? matmul_parts_ : team_.size(); }

  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Event>> Record() override { return std::make_unique<PastEvent>(); }
  absl::Status Wait(Event& event) override { return event.Synchronize(); }

  // The team of a stream that is known to be the CPU's.
  static ThreadTeam& Team(Stream& stream) { return static_cast<CpuStream&>(stream).team(); }

 private:
  class PastEvent : public Event {
   public:
    absl::Status Synchronize() override { return absl::OkStatus(); }
  };

  ThreadTeam& team_;
  const int matmul_parts_;
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_CPU_STREAM_H_
