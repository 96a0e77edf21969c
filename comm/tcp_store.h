// A Store over TCP: one process, usually the first rank's, serves it, and all others connect.
//
//   ARMATURE_ASSIGN_OR_RETURN(auto store, rank == 0 ? ServeTcpStore("0.0.0.0", port)
//                                                   : ConnectTcpStore(host, port, deadline));
//
// The protocol is plain and trusts its network. Malformed requests end their connection and nothing else.
#ifndef ARMATURE_COMM_TCP_STORE_H_
#define ARMATURE_COMM_TCP_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "armature/comm/store.h"

namespace armature {
namespace comm {

// A store that serves itself to others until it is destroyed, on one thread of its own that sleeps between
// requests.
class TcpStoreServer : public Store {
 public:
  // The port it listens on.
  virtual int port() const = 0;
};

// `port` 0 lets the system choose. Errors: Unavailable naming the address, if it is in use or not this
// host's.
absl::StatusOr<std::shared_ptr<TcpStoreServer>> ServeTcpStore(absl::string_view host, int port);

// Tries again until someone serves there. Errors: DeadlineExceeded naming the address, with the last
// attempt's error.
absl::StatusOr<std::shared_ptr<Store>> ConnectTcpStore(absl::string_view host, int port, absl::Time deadline);

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_TCP_STORE_H_
