// Save and Restore: weights, optimizer states, the counts of steps and updates, and the source's place.
#include "armature/base/status_macros.h"
#include "armature/engine/engine_impl.h"

namespace armature {

std::vector<ShardedArray> Engine::Impl::CheckpointArrays(bool once) {
  std::vector<ShardedArray> arrays = Slices(ParameterStore::Kind::kWeights, once);
  for (ShardedArray& state : Slices(ParameterStore::Kind::kStates, once)) arrays.push_back(std::move(state));
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
  if (scaler_.has_value()) {
    state.mutable_loss_scaler()->set_scale(scaler_->state().scale);
    state.mutable_loss_scaler()->set_good_steps(scaler_->state().good_steps);
  }
  return checkpointer_->Save(step(), CheckpointArrays(/*once=*/true), state);
}

absl::StatusOr<RestoreResult> Engine::Impl::Restore(BatchSource* source) {
  if (checkpointer_ == nullptr) {
    return absl::FailedPreconditionError("Restore: checkpoint.directory is not set in the config");
  }
  const std::vector<ShardedArray> arrays = CheckpointArrays(/*once=*/false);
  ARMATURE_ASSIGN_OR_RETURN(RestoredCheckpoint restored, source == nullptr
                                                             ? checkpointer_->RestoreLatest(arrays)
                                                             : RestoreWithSource(arrays, *source));
  if (scaler_.has_value() && restored.state.has_loss_scaler()) {
    const TrainState::LossScaler& saved = restored.state.loss_scaler();
    ARMATURE_RETURN_IF_ERROR(scaler_->Restore({saved.scale(), saved.good_steps()}), "loss scale of step ",
                             restored.step);
  }
  ARMATURE_RETURN_IF_ERROR(ShareWeights());
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
