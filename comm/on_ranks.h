// OnRanks: tests that play all ranks of a group, each on a thread of its own.
//
//   ASSERT_OK_AND_ASSIGN(RankList ranks, MakeInprocGroup(4));
//   const auto meet = [](Communicator& comm) { return comm.Barrier(absl::InfiniteFuture()); };
//   EXPECT_THAT(OnRanks(ranks, meet), Each(IsOk()));
#ifndef ARMATURE_COMM_ON_RANKS_H_
#define ARMATURE_COMM_ON_RANKS_H_

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "armature/comm/communicator.h"

namespace armature {
namespace comm {

// Entry r is rank r.
using RankList = std::vector<std::unique_ptr<Communicator>>;

// Calls `body` for each rank and returns the results by rank.
std::vector<absl::Status> OnRanks(const RankList& ranks,
                                  absl::FunctionRef<absl::Status(Communicator& comm)> body);

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_ON_RANKS_H_
