// GroupOptions: what every backend asks of those who make a group.
#ifndef ARMATURE_COMM_GROUP_OPTIONS_H_
#define ARMATURE_COMM_GROUP_OPTIONS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "armature/comm/communicator.h"
#include "armature/comm/store.h"

namespace armature {
namespace comm {

struct GroupOptions {
  // In every error.
  std::string name = "world";
  // No operation, nor the making of a group, takes longer. InfiniteDuration waits for ever.
  absl::Duration timeout = absl::Minutes(10);

  // How Split and Shrink make groups of processes. Empty: as this group was made.
  using Connect = std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
      std::shared_ptr<Store> store, int rank, int size, const GroupOptions& options)>;
  Connect connect_subgroup = nullptr;
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_GROUP_OPTIONS_H_
