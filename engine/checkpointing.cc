// Save and Restore: weights, optimizer states, the counts of steps and updates, and the source's place.
#include "armature/base/status_macros.h"
#include "armature/engine/engine_impl.h"

namespace armature {

std::vector<ShardedArray> Engine::Impl::CheckpointArrays() {
  std::vector<ShardedArray> arrays;
  for (const std::vector<NamedBuffer>& part : {worker_->store().Weights(), worker_->store().States()}) {
    for (const NamedBuffer& buffer : part) {
      ShardedArray array;
      array.name = buffer.name;
      array.global_shape = buffer.shape;
      array.slice = WholeSlice(buffer.shape);
      array.local = buffer.view;
      arrays.push_back(std::move(array));
    }
  }
  return arrays;
}

absl::StatusOr<SaveHandle> Engine::Impl::Save(const BatchSource* source) {
  if (checkpointer_ == nullptr) {
    return absl::FailedPreconditionError("Save: checkpoint.directory is not set in the config");
  }
  TrainState state;
  state.set_update_count(updates_);
  state.set_seed(config_.seed());
  if (source != nullptr) state.set_data_position(source->Position());
  return checkpointer_->Save(step(), CheckpointArrays(), state);
}

absl::StatusOr<RestoreResult> Engine::Impl::Restore(BatchSource* source) {
  if (checkpointer_ == nullptr) {
    return absl::FailedPreconditionError("Restore: checkpoint.directory is not set in the config");
  }
  const std::vector<ShardedArray> arrays = CheckpointArrays();
  ARMATURE_ASSIGN_OR_RETURN(RestoredCheckpoint restored, source == nullptr
                                                             ? checkpointer_->RestoreLatest(arrays)
                                                             : RestoreWithSource(arrays, *source));
  step_.store(restored.step);
  updates_ = restored.state.update_count();
  gate_.Mend();
  RestoreResult result;
  result.step = restored.step;
  result.skipped = std::move(restored.skipped);
  return result;
}

// The source can go back and the arrays can't, so it goes first. Reads the checkpoint twice: once for its
// place.
absl::StatusOr<RestoredCheckpoint> Engine::Impl::RestoreWithSource(absl::Span<const ShardedArray> arrays,
                                                                   BatchSource& source) {
  RestoreOptions no_arrays;
  no_arrays.ignore_unused = true;
  ARMATURE_ASSIGN_OR_RETURN(RestoredCheckpoint found, checkpointer_->RestoreLatest({}, no_arrays));
  const std::string before = source.Position();
  if (!found.state.data_position().empty()) {
    ARMATURE_RETURN_IF_ERROR(source.Restore(found.state.data_position()), "data position of step ",
                             found.step);
  }
  absl::StatusOr<RestoredCheckpoint> restored = checkpointer_->Restore(found.step, arrays);
  if (!restored.ok() && !found.state.data_position().empty()) {
    return Joined(restored.status(), AddContext(source.Restore(before), "putting the source back"));
  }
  if (restored.ok()) restored->skipped = std::move(found.skipped);
  return restored;
}

}  // namespace armature
