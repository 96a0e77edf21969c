// MakeInprocGroup: a group whose ranks are threads of this process and work on each other's buffers in place.
//
//   ASSERT_OK_AND_ASSIGN(auto ranks, MakeInprocGroup(4));
//   std::thread worker([&] { ranks[1]->AllReduce(view, ReduceOp::kSum).Wait(); });
//
// Every collective is one pass over memory: after the ranks have met, each reads what it needs from the
// peers' own buffers, and they meet again before the buffers are given back. No byte is staged. For P ranks
// and S bytes of the whole, each rank
//
//   verb            reads from peers   writes to peers    steps
//   all-reduce      S (P-1)/P          S (P-1)/P          2      reduces its part of all, into all
//   reduce          S (P-1)/P          S/P (not root)     2
//   reduce-scatter  S (P-1)/P          0                  2
//   all-gather      S (P-1)/P          0                  2
//   all-to-all      S (P-1)/P          0                  2
//   broadcast       S (not root)       0                  2
//   gather          S (P-1)/P (root)   0                  2
//   scatter         S/P (not root)     0                  2
//   barrier         0                  0                  1
//
// A message is copied once, by its receiver, out of the sender's buffer.
#ifndef ARMATURE_COMM_INPROC_INPROC_GROUP_H_
#define ARMATURE_COMM_INPROC_INPROC_GROUP_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "armature/comm/communicator.h"
#include "armature/comm/group_options.h"

namespace armature {
namespace comm {

// Entry r of the result is rank r. They may be destroyed in any order and by any thread.
// Errors: InvalidArgument if size < 1.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeInprocGroup(int size,
                                                                           const GroupOptions& options = {});

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_INPROC_INPROC_GROUP_H_
