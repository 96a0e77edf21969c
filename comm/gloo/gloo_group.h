// ConnectGloo: a group of processes, on any machines, over Gloo's TCP transport.
//
// Gloo brings the connections; the algorithms are here, so that errors name ranks and sums run in the order
// of the ranks. Each collective begins with a header from every rank to every other. For P ranks and S bytes
// of the whole, each rank then
//
//   verb            sends                    receives               rounds of messages
//   all-reduce      2 S (P-1)/P              2 S (P-1)/P            2 ceil(S/C): scatter parts, gather sums
//   reduce          S (root: less S/P)       S (P-1)/P (root 2x)    2 ceil(S/C)
//   reduce-scatter  S (P-1)/P                S (P-1)/P              ceil(S/C)
//   all-gather      S (P-1)/P                S (P-1)/P              1
//   all-to-all      S (P-1)/P                S (P-1)/P              1
//   broadcast       2 S (P-1)/P (root),      S (not root)           2: scatter parts, gather them;
//                   S (P-2)/P (others)                              above 64 KiB and P > 2
//                   S (P-1) (root)           S (not root)           1, else
//   gather          S/P (not root)           S (P-1)/P (root)       1
//   scatter         S (P-1)/P (root)         S/P (not root)         1
//
// Reductions work in chunks of C = 8 MiB, and need C of memory beside the buffers.
//
// A process that dies is noticed at once, as its connections close; one that is stopped, or a network that is
// cut, at the deadline. The rank that notices tells all others why.
#ifndef ARMATURE_COMM_GLOO_GLOO_GROUP_H_
#define ARMATURE_COMM_GLOO_GLOO_GROUP_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "armature/comm/communicator.h"
#include "armature/comm/group_options.h"
#include "armature/comm/store.h"

namespace armature {
namespace comm {

// A collective over the ranks, which meet through fresh keys of `store`; sub-groups use it later. `address`
// is the name or address of this host by which the other ranks reach it. Errors: InvalidArgument if rank or
// size is out of range; Unavailable or DeadlineExceeded naming the rank.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectGloo(std::shared_ptr<Store> store, int rank, int size,
                                                          const std::string& address,
                                                          const GroupOptions& options = {});

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_GLOO_GLOO_GROUP_H_
