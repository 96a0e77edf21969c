// Engine::Impl: what an engine is made of. Private to this package.
//
//   engine.cc         the public face: each call passes the gate and lands here
//   step.cc           one step: forward, backward, update
//   evaluate.cc       the forward alone: Evaluate and Predict
//   train_loop.cc     Run
//   checkpointing.cc  Save and Restore
//   weights.cc        ExportWeights and ImportWeights
#ifndef ARMATURE_ENGINE_ENGINE_IMPL_H_
#define ARMATURE_ENGINE_ENGINE_IMPL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "armature/base/posix_file_system.h"
#include "armature/checkpoint/checkpointer.h"
#include "armature/engine/call_gate.h"
#include "armature/engine/engine.h"
#include "armature/engine/local_ranks.h"
#include "armature/optim/loss_scale.h"
#include "armature/optim/schedule.h"
#include "armature/optim/update_rule.h"

namespace armature {

class Engine::Impl {
 public:
  using Call = CallGate::Call;

  Impl(const EngineConfig& config, Model model, Environment environment);
  // Checks the configuration and makes the parts.
  absl::Status Build();

  CallGate& gate() { return gate_; }
  LocalRanks& ranks() { return *ranks_; }
  int64_t step() const { return step_.load(); }

  // Each is the body of the Engine's function of that name, of a call that the gate let in.
  absl::StatusOr<StepResult> Step(const Call& call, const Batch& batch, const StepOptions& options);
  absl::StatusOr<EvalResult> Evaluate(const Call& call, BatchSource& source);
  absl::StatusOr<Array> Predict(const Call& call, const Batch& batch);
  absl::StatusOr<RunResult> Run(const Call& call, BatchSource& source, const RunOptions& options);
  absl::StatusOr<SaveHandle> Save(const BatchSource* source);
  absl::StatusOr<RestoreResult> Restore(BatchSource* source);
  absl::Status Export(const std::function<absl::Status(const NamedBuffer&)>& sink);
  absl::Status Import(absl::Span<const NamedBuffer> weights);

  // Hands a step to the metric sink, if there is one.
  absl::Status Report(const StepResult& step);

 private:
  // How far a Run is.
  struct Progress {
    BatchSource& source;
    const RunOptions& options;
    RunResult result;
    absl::optional<SaveHandle> save;  // begun by this run and not yet waited for
    int64_t saved_step = -1;
  };

  absl::Status StartRanks();
  absl::Status OpenCheckpoints();

  StepScope Scope(const Call& call, int64_t step, bool training, absl::Time deadline) const;
  // One forward and, when training, backward on all ranks.
  absl::StatusOr<StepAgreement> ForwardBackward(const Batch& batch, const std::vector<int64_t>& counts,
                                                const StepScope& scope);
  absl::Status Update(const StepScope& scope, const StepOptions& options, StepResult& result);
  std::string FirstAnomaly() const;
  absl::Status CheckReplicas();
  absl::Status ShowGradients(const StepOptions& options, double scale);
  // Of all local ranks.
  std::vector<ShardedArray> Slices(ParameterStore::Kind kind, bool once);
  // Each term's sum divided once, by the targets of all microbatches and ranks.
  std::vector<std::pair<std::string, double>> Losses(const std::vector<double>& sums,
                                                     const std::vector<int64_t>& counts) const;

  absl::Status RunSteps(const Call& call, Progress& run);
  absl::StatusOr<bool> RunStep(const Call& call, Progress& run);
  absl::Status BeginSave(Progress& run);
  absl::Status EndSave(Progress& run);

  std::vector<ShardedArray> CheckpointArrays(bool once);
  absl::Status ShareWeights();
  absl::StatusOr<RestoredCheckpoint> RestoreWithSource(absl::Span<const ShardedArray> arrays,
                                                       BatchSource& source);

  const EngineConfig config_;
  const Model model_;
  Environment environment_;
  PosixFileSystem own_files_;
  RealClock own_clock_;
  CallGate gate_;
  std::unique_ptr<UpdateRule> rule_;
  absl::optional<Schedule> schedule_;
  std::unique_ptr<Checkpointer> checkpointer_;  // null: the config has no directory
  absl::optional<LossScaler> scaler_;           // f16 only
  std::unique_ptr<LocalRanks> ranks_;

  std::atomic<int64_t> step_{0};  // steps done
  int64_t updates_ = 0;           // of them, those that moved the weights
};

// The sum of the losses.
double Total(const std::vector<std::pair<std::string, double>>& losses);

// `first`, with the text of `second` behind its own; if one is OK, the other.
absl::Status Joined(const absl::Status& first, const absl::Status& second);

}  // namespace armature

#endif  // ARMATURE_ENGINE_ENGINE_IMPL_H_
