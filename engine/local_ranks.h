// LocalRanks: the ranks of this process, each a RankWorker on a thread of its own, and the groups that join
// them with each other and with the ranks of other processes.
#ifndef ARMATURE_ENGINE_LOCAL_RANKS_H_
#define ARMATURE_ENGINE_LOCAL_RANKS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "armature/comm/communicator.h"
#include "armature/comm/mesh.h"
#include "armature/engine/rank_thread.h"
#include "armature/engine/rank_worker.h"

namespace armature {

// Calls come from one thread at a time.
class LocalRanks {
 public:
  // Called on each rank's thread.
  using Connect = std::function<absl::StatusOr<std::unique_ptr<comm::Communicator>>(int local_rank)>;
  using MakeWorker = std::function<absl::StatusOr<std::unique_ptr<RankWorker>>(comm::Mesh&)>;

  // Errors: ResourceExhausted if the system refuses a thread; those of connect, Mesh::Create and make_worker.
  static absl::StatusOr<std::unique_ptr<LocalRanks>> Start(int count, const comm::MeshShape& shape,
                                                           const Connect& connect,
                                                           const MakeWorker& make_worker);

  int count() const { return static_cast<int>(workers_.size()); }
  RankWorker& worker(int local_rank) { return *workers_[local_rank]; }

  // Runs `body` for every rank, each on its thread, and returns when all are done. A rank that fails aborts
  // its groups, so that no other waits for it; what is returned is its error, and not what follows from it.
  // Groups that failed are made anew before the next body runs; if that is not possible, its error is
  // returned and no body runs.
  absl::Status Run(absl::FunctionRef<absl::Status(RankWorker&)> body);

 private:
  LocalRanks() = default;
  absl::Status OnEach(absl::FunctionRef<absl::Status(int local_rank)> body);
  absl::Status Reconnect(int local_rank);

  std::vector<std::unique_ptr<comm::Mesh>> meshes_;
  std::vector<std::unique_ptr<RankWorker>> workers_;
  std::vector<std::unique_ptr<RankThread>> threads_;
  bool groups_failed_ = false;
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_LOCAL_RANKS_H_
