// GlooMessages: sends and receives of one rank of a group that exchanges messages.
//
// Both sides of a message tell each other its count and type when the call is made, on one slot that takes
// from any peer; the bytes follow once both have heard, all messages side by side.
#ifndef ARMATURE_COMM_GLOO_GLOO_MESSAGES_H_
#define ARMATURE_COMM_GLOO_GLOO_MESSAGES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "armature/comm/communicator.h"
#include "armature/comm/gloo/gloo_collective.h"
#include "armature/comm/gloo/gloo_transport.h"

namespace armature {
namespace comm {

// Thread-compatible.
class GlooMessages {
 public:
  struct Head {
    int64_t count = 0;
    uint32_t number = 0;  // among the messages of its direction between the two ranks
    DType dtype = DType::kF32;
    bool sends = false;
  };
  struct Transfer {
    PointToPoint request;
    Head head;
  };
  struct Batch {
    std::vector<Transfer> transfers;
    GlooTransport::Flight heads;
    absl::Status posted;
  };

  // Both must outlive this object.
  GlooMessages(GlooTransport& transport, GlooCounters& counters);

  // Announces the messages. Never waits.
  std::unique_ptr<Batch> Announce(absl::Span<const PointToPoint> requests);
  // Errors: InvalidArgument if the sides disagree; DeadlineExceeded, Unavailable naming the peer.
  absl::Status Finish(Batch& batch, absl::Time deadline);

 private:
  using Key = std::tuple<int, bool, uint32_t>;  // peer, whether the peer sends, number

  absl::Status AwaitHead(absl::Span<const int> awaited, absl::Time deadline);
  absl::Status FinishWithSelf(Batch& batch);
  absl::Status PostBytes(const Transfer& transfer, const Head& theirs, GlooTransport::Flight& flight);

  GlooTransport& transport_;
  GlooCounters& counters_;
  const int rank_;
  std::vector<uint32_t> sends_, receives_;  // numbered so far, by peer
  std::map<Key, Head> heard_;               // heads that came and were not used yet
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_GLOO_GLOO_MESSAGES_H_
