// Run: a batch, a step, now and then a save, until an end or an error.
#include "armature/base/status_macros.h"
#include "armature/engine/engine_impl.h"

namespace armature {

absl::StatusOr<RunResult> Engine::Impl::Run(const Call& call, BatchSource& source,
                                            const RunOptions& options) {
  Progress run{source, options, {}, {}};
  absl::Status status = RunSteps(call, run);
  const bool may_save = checkpointer_ != nullptr && !config_.checkpoint().read_only();
  if (status.ok() && may_save && run.result.steps > 0 && run.saved_step != step()) status = BeginSave(run);
  // However the run ends, it leaves no save of its own behind.
  ARMATURE_RETURN_IF_ERROR(Joined(status, EndSave(run)));
  return run.result;
}

absl::Status Engine::Impl::RunSteps(const Call& call, Progress& run) {
  const int64_t every_steps = config_.checkpoint().every_steps();
  while (run.result.steps < run.options.max_steps) {
    ARMATURE_RETURN_IF_ERROR(call.token().status());
    if (call.stop_requested()) {
      run.result.end = RunResult::End::kStopRequested;
      return absl::OkStatus();
    }
    ARMATURE_ASSIGN_OR_RETURN(const bool stepped, RunStep(call, run));
    if (!stepped) {
      run.result.end = RunResult::End::kSourceEnded;
      return absl::OkStatus();
    }
    if (run.save.has_value() && run.save->done()) ARMATURE_RETURN_IF_ERROR(EndSave(run));
    if (every_steps > 0 && step() % every_steps == 0) ARMATURE_RETURN_IF_ERROR(BeginSave(run));
  }
  run.result.end = RunResult::End::kMaxSteps;
  return absl::OkStatus();
}

// False at the source's end.
absl::StatusOr<bool> Engine::Impl::RunStep(const Call& call, Progress& run) {
  const std::string place = run.source.Position();
  ARMATURE_ASSIGN_OR_RETURN(const absl::optional<Batch> batch, run.source.Next());
  if (!batch.has_value()) return false;
  absl::StatusOr<StepResult> stepped = Step(call, *batch, {});
  // The step did not happen: a later Run begins with its batch.
  if (!stepped.ok()) {
    return Joined(stepped.status(), AddContext(run.source.Restore(place), "putting the source back"));
  }
  run.result.last = *std::move(stepped);
  ++run.result.steps;
  ARMATURE_RETURN_IF_ERROR(Report(run.result.last), "metrics of step ", run.result.last.step);
  if (run.options.on_step != nullptr) ARMATURE_RETURN_IF_ERROR(run.options.on_step(run.result.last));
  return true;
}

absl::Status Engine::Impl::BeginSave(Progress& run) {
  ARMATURE_RETURN_IF_ERROR(EndSave(run));
  ARMATURE_ASSIGN_OR_RETURN(run.save, Save(&run.source));
  run.saved_step = step();
  return absl::OkStatus();
}

absl::Status Engine::Impl::EndSave(Progress& run) {
  if (!run.save.has_value()) return absl::OkStatus();
  const absl::StatusOr<SaveReport> report = run.save->Wait();
  run.save.reset();
  ARMATURE_RETURN_IF_ERROR(report.status(), "checkpoint");
  return run.options.on_checkpoint == nullptr ? absl::OkStatus() : run.options.on_checkpoint(*report);
}

}  // namespace armature
