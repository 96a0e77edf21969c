// Engine: trains a model inside a process that has other things to do.
//
//   EngineConfig config;                                     // engine/config.proto
//   config.mutable_learning_rate()->set_peak(3e-4);
//   ARMATURE_ASSIGN_OR_RETURN(Model model, MakeGpt2(gpt2));   // or a list of your own blocks
//   ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::Create(config, std::move(model)));
//   ARMATURE_ASSIGN_OR_RETURN(StepResult step, engine->Step(batch));
//   LOG(INFO) << "loss " << step.loss;
//
// The engine works on threads of its own and never ends the process, installs no handler, defines no flag and
// keeps no global state; several engines live side by side. After any error it can be restored or destroyed.
//
// | state   | Step, Evaluate, Predict, Run | Save, Export, Import | Restore | RequestStop         | Cancel |
// |---------|------------------------------|----------------------|---------|---------------------|-----------------------|
// | ready   | -> running, then ready       | ok                   | ok      | no effect           | no effect
// | | running | FailedPrecondition           | FailedPrecondition   | FailedPrecondition | Run ends after the
// step | ends in the step, weights and states as before it -> ready | | failed  | the first error |
// FailedPrecondition   | -> ready | no effect          | no effect             |
//
// Only an error in the middle of a weight update leads to `failed`; a batch that is refused, memory that runs
// out or a deadline that passes leave the engine ready and as it was before the step.
#ifndef ARMATURE_ENGINE_ENGINE_H_
#define ARMATURE_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "armature/base/clock.h"
#include "armature/base/file_system.h"
#include "armature/checkpoint/save_handle.h"
#include "armature/data/batch.h"
#include "armature/data/batch_source.h"
#include "armature/engine/config.pb.h"
#include "armature/engine/step_result.h"
#include "armature/layers/block.h"
#include "armature/tensor/allocator.h"
#include "armature/tensor/named_buffer.h"

namespace armature {

// What the host lends. Null means that the engine makes its own. All must outlive the engine.
struct Environment {
  FileSystem* files = nullptr;  // of checkpoints
  Clock* clock = nullptr;
  MetricSink* metrics = nullptr;  // null: none
};

struct StepOptions {
  // The step ends with DeadlineExceeded if this passes before its update; weights and states are then as
  // before it.
  absl::Time deadline = absl::InfiniteFuture();
  // Sees the averaged, unclipped gradients before the update; an error ends the step before it. For
  // debugging: the views are valid only during the call.
  std::function<absl::Status(absl::Span<const NamedBuffer>)> on_gradients;
};

struct RunOptions {
  // Steps of this run.
  int64_t max_steps = std::numeric_limits<int64_t>::max();
  // On the caller's thread, after each step; an error ends the run and comes out of it.
  std::function<absl::Status(const StepResult&)> on_step;
  // Called when a save of this run is complete, after the step in which that was noticed.
  std::function<absl::Status(const SaveReport&)> on_checkpoint;
};

struct RestoreResult {
  int64_t step = 0;
  // Newer checkpoints that were passed over, a line each that says why.
  std::vector<std::string> skipped;
};

class Engine {
 public:
  // Builds the model and its optimizer. A checkpoint directory is opened, and locked for other writers, but
  // nothing is restored: call Restore. Errors: InvalidArgument naming the field of `config`, or what is wrong
  // with the model; Unimplemented naming a field
  //         whose feature is not built; ResourceExhausted with the memory's figures; those of the checkpoint
  //         directory.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineConfig& config, Model model,
                                                        Environment environment = {});
  // Cancels a running call and waits until it has left, ends a save that is being written, joins all threads.
  ~Engine();

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // One step: forward, backward and weight update over the whole batch.
  // Errors: InvalidArgument if the batch lacks a field of the model or holds a value that the model has no
  // place for,
  //         naming field, sample and value; ResourceExhausted; DeadlineExceeded; the reason given to Cancel.
  absl::StatusOr<StepResult> Step(const Batch& batch, const StepOptions& options = {});

  // The loss over all batches of the source, without dropout; nothing moves. Each counted target weighs the
  // same. Errors: as Step, those of the source, and InvalidArgument if it has no batch.
  absl::StatusOr<EvalResult> Evaluate(BatchSource& source);

  // The model's predictions for a batch without targets, without dropout, in f32.
  absl::StatusOr<Array> Predict(const Batch& batch);

  // Steps until the source ends, max_steps are done, RequestStop is called, or an error. Saves as the config
  // says, and once at the end.
  absl::StatusOr<RunResult> Run(BatchSource& source, const RunOptions& options = {});

  // Writes a checkpoint in the background; it exists when the handle's Wait is OK. `source`, unless null,
  // lets a later Restore go on with the batch that it would give next. Errors: FailedPrecondition if the
  // config has no checkpoint directory; those of Checkpointer::Save.
  absl::StatusOr<SaveHandle> Save(const BatchSource* source = nullptr);

  // Loads the newest complete checkpoint that verifies: weights, optimizer, step, and the place of `source`
  // unless it is null. On an error nothing has changed, but for one: where `source` refuses its place, the
  // engine is failed, and a Restore without the source mends it. Errors: NotFound if there is none;
  // InvalidArgument if it is another model's; DataLoss if all are damaged; those of
  //         BatchSource::Restore.
  absl::StatusOr<RestoreResult> Restore(BatchSource* source = nullptr);

  // Hands each weight to `sink`, under its name, in f32. The views are valid only during the call.
  absl::Status ExportWeights(const std::function<absl::Status(const NamedBuffer&)>& sink) const;
  // Replaces all weights; optimizer state stays. Errors: InvalidArgument naming a missing, extra or misshapen
  // weight, or one that is not f32; then nothing has changed.
  absl::Status ImportWeights(absl::Span<const NamedBuffer> weights);

  // Any thread. Run ends after the step it is in; without a Run it has no effect.
  void RequestStop();
  // Any thread. The running call ends with `why`, which must not be OK, before it moves a weight.
  void Cancel(absl::Status why);

  int64_t step() const;
  int64_t num_parameters() const;
  // Forward and backward of the matrix products, attention included, of `samples` samples of `positions`
  // positions.
  double FlopsPerStep(int64_t samples, int64_t positions) const;
  MemoryCounters memory(MemoryCategory category) const;
  MemoryCounters total_memory() const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_ENGINE_H_
