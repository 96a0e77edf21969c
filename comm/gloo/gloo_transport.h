// GlooTransport: Gloo's TCP connections between the ranks of a group, with deadlines, peers by rank, and no
// exceptions.
//
// Gloo's own timeouts close every connection of the process and name no one. Here a wait that must end early
// is ended by a thread of this object (which sleeps until the next deadline), and the connections stay
// usable, so that the rank which gives up can still tell the others why: a note on a slot that every rank
// listens to, on a second thread.
#ifndef ARMATURE_COMM_GLOO_GLOO_TRANSPORT_H_
#define ARMATURE_COMM_GLOO_GLOO_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "armature/comm/operation.h"
#include "armature/comm/store.h"

namespace armature {
namespace comm {

// A stretch of memory to or from one peer. Empty ones are skipped on both sides.
struct Packet {
  enum class Direction { kSend, kReceive } direction = Direction::kSend;
  int peer = 0;
  Region region;
};

// Thread-safe, but for what is said at the methods.
class GlooTransport {
 public:
  // Packets under way. Destroying it stops the transport from touching their memory.
  class Flight;

  // A collective over the ranks. `address` is the name or address of this host that peers connect to.
  // Errors: DeadlineExceeded naming the rank that did not come; Unavailable.
  static absl::StatusOr<std::unique_ptr<GlooTransport>> Connect(Store& store, int rank, int size,
                                                                const std::string& address,
                                                                absl::Time deadline);
  ~GlooTransport();

  // Posts all packets and returns at once. A slot tells packets between the same ranks apart; 48 bits are the
  // caller's. Errors: Unavailable naming the peer.
  absl::Status Post(absl::Span<const Packet> packets, uint64_t slot, Flight& flight);
  // Errors: DeadlineExceeded or Unavailable naming the peer; the failure, after Fail or a peer's.
  absl::Status Wait(Flight& flight, absl::Time deadline);
  absl::Status Exchange(absl::Span<const Packet> packets, uint64_t slot, absl::Time deadline);

  // Waits for one packet on `slot` from whichever of the peers sends first, and returns which. One thread at
  // a time. Errors: as Wait; a deadline names all `awaited`.
  absl::StatusOr<int> ReceiveFromAny(Region region, uint64_t slot, absl::Span<const int> awaited,
                                     absl::Time deadline);

  // Makes `why` the group's failure if it has none, here and on all peers, and ends all waits.
  void Fail(const absl::Status& why);
  // OK while there is none.
  absl::Status failure() const;

  int rank() const;
  int size() const;

 private:
  class Impl;
  explicit GlooTransport(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class GlooTransport::Flight {
 public:
  Flight();
  Flight(Flight&&) noexcept;
  ~Flight();

 private:
  friend class GlooTransport::Impl;
  struct Part;
  std::vector<Part> parts_;
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_GLOO_GLOO_TRANSPORT_H_
