#include "armature/comm/process_group.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/gloo/gloo_group.h"
#include "armature/comm/shm/shared_segment.h"
#include "armature/comm/shm/shm_group.h"

namespace armature {
namespace comm {
namespace {

// The same for processes that reach each other over loopback.
std::string NetworkDomain() {
  struct stat space = {};
  if (stat("/proc/self/ns/net", &space) != 0) return absl::StrCat("alone in process ", getpid());
  return absl::StrCat(space.st_dev, "/", space.st_ino);
}

// Which of these two all ranks have in common with this one.
struct Common {
  bool memory = true;
  bool network = true;
};

absl::StatusOr<Common> FindCommon(Store& store, int rank, int size, absl::Time deadline) {
  const std::string memory = SharedMemoryDomain(), network = absl::StrCat(memory, "\n", NetworkDomain());
  ARMATURE_RETURN_IF_ERROR(store.Set(absl::StrCat("host/", rank), network));
  Common common;
  for (int peer = 0; peer < size; ++peer) {
    ARMATURE_ASSIGN_OR_RETURN(std::string theirs, store.Get(absl::StrCat("host/", peer), deadline), "rank ",
                              peer, " did not come");
    common.network = common.network && theirs == network;
    common.memory = common.memory && absl::string_view(theirs).substr(0, theirs.find('\n')) == memory;
  }
  return common;
}

std::string FirstForeignAddress() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "127.0.0.1";
  auto freer = absl::MakeCleanup([list] { freeifaddrs(list); });
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool usable = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
                        (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    char text[INET_ADDRSTRLEN];
    if (usable && inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, text,
                            sizeof(text)) != nullptr) {
      return text;
    }
  }
  return "127.0.0.1";
}

// Debian names the host 127.0.1.1, which no other host reaches.
std::string ForeignAddress() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return FirstForeignAddress();
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(name, nullptr, &hints, &found) != 0) return FirstForeignAddress();
  auto freer = absl::MakeCleanup([found] { freeaddrinfo(found); });
  const in_addr address = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
  char text[INET_ADDRSTRLEN];
  const bool loopback = (ntohl(address.s_addr) >> 24) == 127;
  if (loopback || inet_ntop(AF_INET, &address, text, sizeof(text)) == nullptr) return FirstForeignAddress();
  return text;
}

std::string AddressFor(const ProcessGroupOptions& options, const Common& common) {
  if (!options.address.empty()) return options.address;
  return common.network ? "127.0.0.1" : ForeignAddress();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectProcesses(std::shared_ptr<Store> store, int rank,
                                                               int size, const ProcessGroupOptions& options) {
  if (size < 1 || rank < 0 || rank >= size) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.group.name, ": rank ", rank, " of a group of ", size));
  }
  GroupOptions group = options.group;
  group.connect_subgroup = [options](std::shared_ptr<Store> sub_store, int sub_rank, int sub_size,
                                     const GroupOptions& sub_group) {
    ProcessGroupOptions sub_options = options;
    sub_options.group = sub_group;
    return ConnectProcesses(std::move(sub_store), sub_rank, sub_size, sub_options);
  };
  ARMATURE_ASSIGN_OR_RETURN(Common common, FindCommon(*store, rank, size, absl::Now() + group.timeout),
                            group.name);
  if (options.transport == Transport::kSharedMemory && !common.memory) {
    return absl::UnavailableError(absl::StrCat(group.name, ": the ranks don't share a host's memory"));
  }
  if (options.transport != Transport::kTcp && common.memory) {
    auto made = ConnectSharedMemory(WithPrefix(store, "memory/"), rank, size, group);
    // All ranks get the same error here, and go the same way.
    const bool too_small = made.status().code() == absl::StatusCode::kResourceExhausted;
    if (!too_small || options.transport == Transport::kSharedMemory) return made;
  }
  return ConnectGloo(WithPrefix(store, "tcp/"), rank, size, AddressFor(options, common), group);
}

}  // namespace comm
}  // namespace armature
