#include "armature/comm/nccl/nccl_group.h"

namespace armature {
namespace comm {

absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(std::shared_ptr<Store>, int, int,
                                                          const NcclOptions&) {
  return absl::UnimplementedError("built without NCCL; build with --config=cuda");
}

}  // namespace comm
}  // namespace armature
