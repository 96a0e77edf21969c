#include "armature/comm/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace comm {
namespace {

// Waits until `fd` is ready for `events`.
absl::Status Await(int fd, short events, absl::Time deadline) {
  for (;;) {
    const double left = absl::ToDoubleMilliseconds(deadline - absl::Now());
    if (left <= 0) return absl::DeadlineExceededError("no answer in time");
    pollfd entry = {fd, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min(left + 1, 1000.0)));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return absl::UnavailableError(std::strerror(errno));
  }
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

absl::Status AddressError(absl::string_view doing, absl::string_view host, int port, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(doing, " ", host, ":", port, ": ", why));
}

absl::StatusOr<addrinfo*> Resolve(absl::string_view host, int port, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(std::string(host).c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) return AddressError("resolve", host, port, gai_strerror(error));
  return found;
}

absl::Status ConnectOne(const addrinfo& address, Socket& socket, absl::Time deadline) {
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return absl::OkStatus();
  if (errno != EINPROGRESS) return absl::UnavailableError(std::strerror(errno));
  ARMATURE_RETURN_IF_ERROR(Await(socket.fd(), POLLOUT, deadline));
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 ? absl::OkStatus() : absl::UnavailableError(std::strerror(error));
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

absl::Status Socket::SendAll(absl::string_view bytes, absl::Time deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (WouldBlock()) {
      ARMATURE_RETURN_IF_ERROR(Await(fd_, POLLOUT, deadline));
    } else {
      return absl::UnavailableError(std::strerror(errno));
    }
  }
  return absl::OkStatus();
}

absl::Status Socket::ReceiveAll(char* bytes, size_t count, absl::Time deadline) {
  while (count > 0) {
    const ssize_t got = recv(fd_, bytes, count, MSG_DONTWAIT);
    if (got > 0) {
      bytes += got;
      count -= static_cast<size_t>(got);
    } else if (got < 0 && WouldBlock()) {
      ARMATURE_RETURN_IF_ERROR(Await(fd_, POLLIN, deadline));
    } else {
      return absl::UnavailableError(got == 0 ? "the peer closed the connection" : std::strerror(errno));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Socket> Listen(absl::string_view host, int port) {
  ARMATURE_ASSIGN_OR_RETURN(addrinfo * addresses, Resolve(host, port, AI_PASSIVE));
  auto freer = absl::MakeCleanup([addresses] { freeaddrinfo(addresses); });
  std::string why = "no address";
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    Socket socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    if (socket.fd() >= 0 && setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(socket.fd(), address->ai_addr, address->ai_addrlen) == 0 &&
        listen(socket.fd(), SOMAXCONN) == 0) {
      return socket;
    }
    why = std::strerror(errno);
  }
  return AddressError("listen on", host, port, why);
}

absl::StatusOr<Socket> ConnectTo(absl::string_view host, int port, absl::Time deadline) {
  ARMATURE_ASSIGN_OR_RETURN(addrinfo * addresses, Resolve(host, port, 0));
  auto freer = absl::MakeCleanup([addresses] { freeaddrinfo(addresses); });
  absl::Status last = absl::UnavailableError("no address");
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    Socket socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.fd() < 0) continue;
    last = ConnectOne(*address, socket, deadline);
    if (!last.ok()) continue;
    const int on = 1;
    setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return socket;
  }
  return AddressError("connect to", host, port, last.message());
}

int LocalPort(const Socket& socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace comm
}  // namespace armature
