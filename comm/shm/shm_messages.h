// ShmMessages: sends and receives of one rank of a group that shares a segment.
#ifndef ARMATURE_COMM_SHM_SHM_MESSAGES_H_
#define ARMATURE_COMM_SHM_SHM_MESSAGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "armature/comm/communicator.h"
#include "armature/comm/lockstep.h"
#include "armature/comm/shm/layout.h"
#include "armature/comm/shm/shm_collective.h"

namespace armature {
namespace comm {

// Thread-compatible.
class ShmMessages {
 public:
  // One message under way.
  struct Transfer {
    PointToPoint request;
    uint32_t number = 0;  // among the messages of its direction and peer
    enum class State { kWaiting, kOffered, kMoving, kDone } state = State::kWaiting;
    int64_t moved = 0;  // bytes
    absl::Status result;
  };

  // All must outlive this object.
  ShmMessages(const ShmLayout& layout, Lockstep& lockstep, Lockstep::Lives lives, ShmCounters& counters,
              int rank, int size);

  // Gives each message its place in line.
  std::vector<Transfer> Number(absl::Span<const PointToPoint> requests);

  // Moves all of them until all are done. Calls for different lists follow each other in the order of Number.
  // Errors: InvalidArgument if the sides disagree; DeadlineExceeded, Unavailable naming the peer; the group's
  // failure.
  absl::Status Finish(absl::Span<Transfer> transfers, absl::Time deadline);

 private:
  // Each moves what can be moved without waiting, and returns true if anything changed.
  bool Advance(Transfer& transfer);
  bool AdvanceSend(Transfer& transfer, Channel& channel, char* ring);
  bool AdvanceReceive(Transfer& transfer, Channel& channel, char* ring);
  absl::Status Disagree(int from, int to, const Channel& channel) const;
  void Ring(int rank) const;
  absl::Status CheckPeers(absl::Span<const Transfer> transfers, absl::Time deadline) const;

  const ShmLayout& layout_;
  Lockstep& lockstep_;
  const Lockstep::Lives lives_;
  ShmCounters& counters_;
  const int rank_;
  const int64_t ring_bytes_;
  std::vector<uint32_t> sends_, receives_;            // numbered so far, by peer
  std::vector<uint32_t> sends_done_, receives_done_;  // a message begins when those before it are done
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_SHM_SHM_MESSAGES_H_
