// ConnectNccl: a group of GPUs over NCCL, one GPU for each rank. Built with --config=cuda; without it every
// call returns Unimplemented.
//
// Each rank has a stream for its group. An operation starts after what the compute stream holds when the call
// is made, and what is put on the compute stream after Wait starts after the operation. Calls only enqueue;
// Wait also watches the host's clock, NCCL's asynchronous errors and the store, where a rank that aborts
// leaves its reason.
//
// Differences from the CPU backends, all NCCL's: the order of reductions is fixed for one topology and
// version, not by rank; f16 and bf16 may round more than once; ranks that disagree on an operation end at the
// deadline. A deadline names the ranks that did not report to the store that they wait too.
#ifndef ARMATURE_COMM_NCCL_NCCL_GROUP_H_
#define ARMATURE_COMM_NCCL_NCCL_GROUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "armature/comm/communicator.h"
#include "armature/comm/group_options.h"
#include "armature/comm/store.h"

namespace armature {
namespace comm {

struct NcclOptions {
  GroupOptions group;
  // Which GPU of this process is the rank's.
  int device = 0;
  // The cudaStream_t whose work feeds and follows the collectives. Null is CUDA's default stream.
  void* compute_stream = nullptr;
};

// A collective over the ranks. The first one makes NCCL's unique id, which travels through fresh keys of
// `store`. Sub-groups use the same stream and store. Errors: Unimplemented without --config=cuda;
// InvalidArgument if rank, size or device is out of range; Unavailable; DeadlineExceeded.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(std::shared_ptr<Store> store, int rank, int size,
                                                          const NcclOptions& options = {});

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_NCCL_NCCL_GROUP_H_
