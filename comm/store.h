// Store: a small shared map through which ranks find each other. The host may bring its own (etcd, its own
// RPC).
//
// Three come with the library: MakeInprocStore for threads, OpenFileStore for processes that share a folder,
// and ServeTcpStore with ConnectTcpStore for processes that share a network.
//
// Errors, everywhere: DeadlineExceeded naming the key, Unavailable if the store itself is lost.
#ifndef ARMATURE_COMM_STORE_H_
#define ARMATURE_COMM_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace armature {
namespace comm {

// Thread-safe. Keys and values are any bytes; keys are at most 1 KiB long and values 1 MiB.
class Store {
 public:
  virtual ~Store() = default;
  // Replaces an earlier value. The value is visible to all when this returns.
  virtual absl::Status Set(absl::string_view key, absl::string_view value) = 0;
  // Waits until the key has a value.
  virtual absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) = 0;
  // Adds to a counter that starts at 0, and returns its new value. Counters and values have separate keys.
  virtual absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) = 0;
};

// A store in this process's memory, for ranks that are threads.
std::shared_ptr<Store> MakeInprocStore();

// A view of `store` whose keys begin with `prefix`.
std::shared_ptr<Store> WithPrefix(std::shared_ptr<Store> store, absl::string_view prefix);

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_STORE_H_
