#include "armature/comm/tcp_store.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/socket.h"

namespace armature {
namespace comm {
namespace {

enum class Request : uint32_t { kSet = 1, kGet = 2, kAdd = 3 };

// Little-endian hosts only, as all of Armature.
struct RequestHead {
  Request request;
  uint32_t key_bytes;
  uint32_t value_bytes;
};
struct ReplyHead {
  uint32_t found;
  uint32_t value_bytes;
};

constexpr uint32_t kMaxKey = 1024, kMaxValue = 1 << 20;
constexpr absl::Duration kAnswerTime = absl::Seconds(30);

template <class T>
absl::string_view AsBytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

absl::Status CheckSizes(absl::string_view key, absl::string_view value) {
  if (key.size() <= kMaxKey && value.size() <= kMaxValue) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("store: a key of ", key.size(), " bytes with a value of ", value.size(), " is too long"));
}

// A connection to the server and what it has sent of its next request.
struct Client {
  Socket socket;
  std::string input;
};

class Server final : public TcpStoreServer {
 public:
  Server(Socket listener, Socket wake_in, Socket wake_out)
      : listener_(std::move(listener)),
        wake_in_(std::move(wake_in)),
        wake_out_(std::move(wake_out)),
        port_(LocalPort(listener_)),
        thread_([this] { Serve(); }) {}

  ~Server() override {
    stopping_.store(true);
    if (write(wake_out_.fd(), "x", 1) < 0) shutdown(wake_out_.fd(), SHUT_RDWR);
    thread_.join();
  }

  int port() const override { return port_; }

  absl::Status Set(absl::string_view key, absl::string_view value) override {
    ARMATURE_RETURN_IF_ERROR(CheckSizes(key, value));
    return map_->Set(key, value);
  }
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    return map_->Get(key, deadline);
  }
  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) override { return map_->Add(key, delta); }

 private:
  void Serve() {
    while (!stopping_.load()) {
      std::vector<pollfd> entries = {{wake_in_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
      for (const Client& client : clients_) entries.push_back({client.socket.fd(), POLLIN, 0});
      if (poll(entries.data(), entries.size(), -1) < 0) continue;
      size_t i = 2;
      for (auto client = clients_.begin(); client != clients_.end(); ++i) {
        const bool lost = entries[i].revents != 0 && !Read(*client);
        client = lost ? clients_.erase(client) : std::next(client);
      }
      if (entries[1].revents != 0) Accept();
    }
  }

  void Accept() {
    const int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      clients_.push_back({Socket(fd), {}});
    } else if (errno == EMFILE || errno == ENFILE) {
      absl::SleepFor(absl::Milliseconds(10));  // no descriptor is free: don't spin on the one who knocks
    }
  }

  // False once the connection is lost or sent nonsense.
  bool Read(Client& client) {
    char buffer[4096];
    const ssize_t got = recv(client.socket.fd(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    client.input.append(buffer, static_cast<size_t>(got));
    for (;;) {
      RequestHead head;
      if (client.input.size() < sizeof(head)) return true;
      std::memcpy(&head, client.input.data(), sizeof(head));
      if (head.key_bytes > kMaxKey || head.value_bytes > kMaxValue) return false;
      const size_t size = sizeof(head) + head.key_bytes + head.value_bytes;
      if (client.input.size() < size) return true;
      const absl::string_view body =
          absl::string_view(client.input).substr(sizeof(head), size - sizeof(head));
      if (!Answer(client, head.request, body.substr(0, head.key_bytes), body.substr(head.key_bytes)))
        return false;
      client.input.erase(0, size);
    }
  }

  bool Answer(Client& client, Request request, absl::string_view key, absl::string_view value) {
    absl::StatusOr<std::string> answer = Carry(request, key, value);
    if (!answer.ok() && answer.status().code() != absl::StatusCode::kDeadlineExceeded) return false;
    const std::string bytes = answer.ok() ? *std::move(answer) : std::string();
    const ReplyHead head = {answer.ok() ? 1u : 0u, static_cast<uint32_t>(bytes.size())};
    // A client that does not read its answers is cut off rather than waited for.
    return client.socket.SendAll(absl::StrCat(AsBytes(head), bytes), absl::Now() + absl::Seconds(1)).ok();
  }

  absl::StatusOr<std::string> Carry(Request request, absl::string_view key, absl::string_view value) {
    switch (request) {
      case Request::kSet: {
        ARMATURE_RETURN_IF_ERROR(map_->Set(key, value));
        return std::string();
      }
      case Request::kGet:
        return map_->Get(key, absl::InfinitePast());
      case Request::kAdd: {
        int64_t delta = 0;
        if (value.size() != sizeof(delta)) return absl::InvalidArgumentError("delta");
        std::memcpy(&delta, value.data(), sizeof(delta));
        ARMATURE_ASSIGN_OR_RETURN(int64_t sum, map_->Add(key, delta));
        return std::string(AsBytes(sum));
      }
    }
    return absl::InvalidArgumentError("request");
  }

  const std::shared_ptr<Store> map_ = MakeInprocStore();
  const Socket listener_, wake_in_, wake_out_;
  const int port_;
  std::list<Client> clients_;  // the server's thread only
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class ClientStore final : public Store {
 public:
  ClientStore(Socket socket, std::string address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  absl::Status Set(absl::string_view key, absl::string_view value) override {
    return Ask(Request::kSet, key, value).status();
  }

  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    absl::Duration pause = absl::Microseconds(200);
    for (;;) {
      ARMATURE_ASSIGN_OR_RETURN(Reply reply, Ask(Request::kGet, key, ""));
      if (reply.found) return std::move(reply.value);
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(absl::StrCat("store ", address_, ": nobody has set ", key));
      }
      absl::SleepFor(std::min(pause, left));
      pause = std::min(2 * pause, absl::Milliseconds(20));
    }
  }

  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) override {
    ARMATURE_ASSIGN_OR_RETURN(Reply reply, Ask(Request::kAdd, key, AsBytes(delta)));
    int64_t sum = 0;
    if (reply.value.size() != sizeof(sum)) return Lost("a sum of the wrong size");
    std::memcpy(&sum, reply.value.data(), sizeof(sum));
    return sum;
  }

 private:
  struct Reply {
    bool found = false;
    std::string value;
  };

  absl::Status Lost(absl::string_view why) const {
    return absl::UnavailableError(absl::StrCat("store ", address_, ": ", why));
  }

  absl::StatusOr<Reply> Ask(Request request, absl::string_view key, absl::string_view value) {
    ARMATURE_RETURN_IF_ERROR(CheckSizes(key, value));
    const RequestHead head = {request, static_cast<uint32_t>(key.size()),
                              static_cast<uint32_t>(value.size())};
    const absl::Time deadline = absl::Now() + kAnswerTime;
    std::lock_guard<std::mutex> lock(mutex_);
    absl::StatusOr<Reply> reply = Exchange(absl::StrCat(AsBytes(head), key, value), deadline);
    if (!reply.ok()) socket_ = Socket();  // what comes later would answer another question
    return reply;
  }

  absl::StatusOr<Reply> Exchange(absl::string_view question, absl::Time deadline) {
    if (socket_.fd() < 0) return Lost("the connection was lost");
    absl::Status sent = socket_.SendAll(question, deadline);
    if (!sent.ok()) return Lost(sent.message());
    ReplyHead head;
    absl::Status got = socket_.ReceiveAll(reinterpret_cast<char*>(&head), sizeof(head), deadline);
    if (!got.ok()) return Lost(got.message());
    if (head.value_bytes > kMaxValue) return Lost("an answer that is too long");
    Reply reply = {head.found != 0, std::string(head.value_bytes, '\0')};
    got = socket_.ReceiveAll(&reply.value[0], reply.value.size(), deadline);
    if (!got.ok()) return Lost(got.message());
    return reply;
  }

  std::mutex mutex_;
  Socket socket_;
  const std::string address_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<TcpStoreServer>> ServeTcpStore(absl::string_view host, int port) {
  ARMATURE_ASSIGN_OR_RETURN(Socket listener, Listen(host, port), "store");
  int wake[2];
  if (pipe2(wake, O_CLOEXEC) != 0)
    return absl::UnavailableError(absl::StrCat("store: ", std::strerror(errno)));
  return std::make_shared<Server>(std::move(listener), Socket(wake[0]), Socket(wake[1]));
}

absl::StatusOr<std::shared_ptr<Store>> ConnectTcpStore(absl::string_view host, int port,
                                                       absl::Time deadline) {
  absl::Duration pause = absl::Milliseconds(2);
  for (;;) {
    absl::StatusOr<Socket> socket = ConnectTo(host, port, deadline);
    if (socket.ok()) return std::make_shared<ClientStore>(*std::move(socket), absl::StrCat(host, ":", port));
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration())
      return absl::DeadlineExceededError(absl::StrCat("store: ", socket.status().message()));
    absl::SleepFor(std::min(pause, left));
    pause = std::min(2 * pause, absl::Milliseconds(100));
  }
}

}  // namespace comm
}  // namespace armature
