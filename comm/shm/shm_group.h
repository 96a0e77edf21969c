// ConnectSharedMemory: a group of processes of one host that meet in a shared segment.
//
// No process can touch another's memory, so bytes go through the segment, in chunks that stay in the
// processors' caches: each rank copies a chunk in, the ranks meet, each takes or reduces what it needs, and
// the next chunk goes into the other half. For P ranks and S bytes of the whole, in chunks of C (128 KiB),
// each rank
//
//   verb            copies in           takes out            steps
//   all-reduce      S                   2 S (P-1)/P          ceil(S/C) + 1
//   reduce          S  (root: less S/P) S (P-1)/P, root 2x   ceil(S/C) + 1
//   reduce-scatter  S (P-1)/P           S (P-1)/P            ceil(S/C), at least 1
//   all-to-all      S (P-1)/P           S (P-1)/P            ceil(S/C), at least 1
//   all-gather      S/P                 S (P-1)/P            ceil(S/P/C), at least 1
//   broadcast       S (root)            S (not root)         ceil(S/C), at least 1
//   gather          S/P (not root)      S (P-1)/P (root)     ceil(S/P/C), at least 1
//   scatter         S (P-1)/P (root)    S/P (not root)       ceil(S/C), at least 1
//   barrier         0                   0                    1
//
// A message goes through a ring of its own for each pair of ranks, copied in by the sender and out by the
// receiver.
//
// A process that dies is noticed within a tenth of a second by those who wait for it; one that is stopped, at
// their deadline. Ranks may also be threads of one process.
#ifndef ARMATURE_COMM_SHM_SHM_GROUP_H_
#define ARMATURE_COMM_SHM_SHM_GROUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "armature/comm/communicator.h"
#include "armature/comm/group_options.h"
#include "armature/comm/store.h"

namespace armature {
namespace comm {

// A collective over the ranks, which meet through fresh keys of `store`; sub-groups use it later.
// Errors: InvalidArgument if rank or size is out of range; ResourceExhausted if the host has too little
// shared memory; DeadlineExceeded naming a rank that did not come within the timeout. All ranks get one.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectSharedMemory(std::shared_ptr<Store> store, int rank,
                                                                  int size, const GroupOptions& options = {});

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_SHM_SHM_GROUP_H_
