// GlooCollective: one rank's part in the collectives of a group that exchanges messages.
#ifndef ARMATURE_COMM_GLOO_GLOO_COLLECTIVE_H_
#define ARMATURE_COMM_GLOO_GLOO_COLLECTIVE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "armature/comm/gloo/gloo_transport.h"
#include "armature/comm/operation.h"

namespace armature {
namespace comm {

struct GlooCounters {
  std::atomic<int64_t> bytes_sent{0};
  std::atomic<int64_t> bytes_received{0};
  std::atomic<int64_t> steps{0};
};

// Thread-compatible.
class GlooCollective {
 public:
  // Both must outlive this object.
  GlooCollective(GlooTransport& transport, GlooCounters& counters);

  // Errors: InvalidArgument if the ranks disagree; as GlooTransport::Wait.
  absl::Status Run(const Operation& operation, absl::Time deadline);

 private:
  absl::Status ExchangeHeaders(const Operation& operation, absl::Time deadline);
  absl::Status Exchange(const std::vector<Packet>& packets, absl::Time deadline);

  absl::Status Move(const Operation& operation, absl::Time deadline);
  absl::Status BroadcastInParts(const Operation& operation, absl::Time deadline);
  absl::Status ReduceScatter(const Operation& operation, absl::Time deadline);
  absl::Status ReduceWhole(const Operation& operation, absl::Time deadline);
  absl::Status ReduceChunk(const Operation& operation, Range chunk, absl::Time deadline);

  // Receives each peer's contribution to `own` bytes into scratch, sends `for_peer(peer)` to each, and
  // reduces.
  template <class ForPeer>
  absl::Status ReducePart(const Operation& operation, Region own, char* target, ForPeer for_peer,
                          absl::Time deadline);

  GlooTransport& transport_;
  GlooCounters& counters_;
  const int rank_;
  const int size_;
  uint64_t sequence_ = 0;
  uint64_t slot_ = 0;
  std::vector<std::string> headers_;  // by rank: Header, then two lists of parts
  std::vector<char> scratch_;
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_GLOO_GLOO_COLLECTIVE_H_
