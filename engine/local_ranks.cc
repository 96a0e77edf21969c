#include "armature/engine/local_ranks.h"

#include <mutex>
#include <utility>

#include "armature/base/status_macros.h"

namespace armature {
namespace {

// Whether an error is likely to be what a rank gets when another one has failed.
bool FollowsFromAnother(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsUnavailable(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalRanks>> LocalRanks::Start(int count, const comm::MeshShape& shape,
                                                              const Connect& connect,
                                                              const MakeWorker& make_worker) {
  std::unique_ptr<LocalRanks> ranks(new LocalRanks);
  for (int i = 0; i < count; ++i) {
    ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<RankThread> thread, RankThread::Start());
    ranks->threads_.push_back(std::move(thread));
  }
  ranks->meshes_.resize(count);
  ARMATURE_RETURN_IF_ERROR(ranks->OnEach([&](int i) -> absl::Status {
    ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<comm::Communicator> world, connect(i));
    ARMATURE_ASSIGN_OR_RETURN(ranks->meshes_[i], comm::Mesh::Create(shape, std::move(world)));
    return absl::OkStatus();
  }));
  ranks->workers_.resize(count);
  ARMATURE_RETURN_IF_ERROR(ranks->OnEach([&](int i) -> absl::Status {
    ARMATURE_ASSIGN_OR_RETURN(ranks->workers_[i], make_worker(*ranks->meshes_[i]));
    return absl::OkStatus();
  }));
  return ranks;
}

absl::Status LocalRanks::OnEach(absl::FunctionRef<absl::Status(int local_rank)> body) {
  std::mutex mutex;
  absl::Status first;
  for (int i = 0; i < static_cast<int>(threads_.size()); ++i) {
    threads_[i]->Begin([&, i] {
      const absl::Status status = body(i);
      if (status.ok()) return;
      {
        std::lock_guard<std::mutex> lock(mutex);
        if (first.ok() || (FollowsFromAnother(first) && !FollowsFromAnother(status))) first = status;
      }
      if (meshes_[i] != nullptr) meshes_[i]->Abort(status);
      if (i < static_cast<int>(workers_.size()) && workers_[i] != nullptr) workers_[i]->Abort(status);
    });
  }
  for (const std::unique_ptr<RankThread>& thread : threads_) thread->Wait();
  return first;
}

absl::Status LocalRanks::Reconnect(int local_rank) {
  std::unique_ptr<comm::Mesh>& mesh = meshes_[local_rank];
  ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<comm::Communicator> world, mesh->world().Shrink({}));
  ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<comm::Mesh> joined,
                            comm::Mesh::Create(mesh->shape(), std::move(world)));
  ARMATURE_RETURN_IF_ERROR(workers_[local_rank]->Reconnect(*joined));
  mesh = std::move(joined);
  return absl::OkStatus();
}

absl::Status LocalRanks::Run(absl::FunctionRef<absl::Status(RankWorker&)> body) {
  if (groups_failed_) {
    ARMATURE_RETURN_IF_ERROR(OnEach([this](int i) { return Reconnect(i); }),
                             "joining the ranks again after an error");
    groups_failed_ = false;
  }
  const absl::Status status = OnEach([&](int i) { return body(*workers_[i]); });
  if (!status.ok()) groups_failed_ = true;
  return status;
}

}  // namespace armature
