// Socket: a TCP socket that closes itself, with deadlines. Every failure is a Status; no signal is raised.
#ifndef ARMATURE_COMM_SOCKET_H_
#define ARMATURE_COMM_SOCKET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace armature {
namespace comm {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int fd() const { return fd_; }

  // Errors: DeadlineExceeded; Unavailable if the peer is gone.
  absl::Status SendAll(absl::string_view bytes, absl::Time deadline);
  absl::Status ReceiveAll(char* bytes, size_t count, absl::Time deadline);

 private:
  int fd_ = -1;
};

// Listening, non-blocking. Errors: Unavailable naming the address.
absl::StatusOr<Socket> Listen(absl::string_view host, int port);
// Errors: Unavailable naming the address.
absl::StatusOr<Socket> ConnectTo(absl::string_view host, int port, absl::Time deadline);
// The port that a listening socket has.
int LocalPort(const Socket& socket);

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_SOCKET_H_
