// How each verb is said in NCCL's calls.
#ifndef ARMATURE_COMM_NCCL_NCCL_LAUNCH_H_
#define ARMATURE_COMM_NCCL_NCCL_LAUNCH_H_

#include <nccl.h>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "armature/comm/communicator.h"
#include "armature/comm/operation.h"

namespace armature {
namespace comm {

struct NcclTarget {
  ncclComm_t comm;
  cudaStream_t stream;
  int rank;
  int size;
};

// Each only enqueues. The operation's arguments have been checked.
absl::Status LaunchCollective(const Operation& operation, const NcclTarget& target);
absl::Status LaunchMessages(absl::Span<const PointToPoint> transfers, const NcclTarget& target);

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_NCCL_NCCL_LAUNCH_H_
