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
// Where the ranks are spread over several processes, every process makes the same calls with the same
// batches, and each computes its ranks' share of them.
//
//   call                                 | ready      | running                  | failed
//   -------------------------------------|------------|--------------------------|------------------------
//   Step, Evaluate, Predict, Run         | -> running | FailedPrecondition       | the first error
//   Save, ExportWeights, ImportWeights   | -> running | FailedPrecondition       | FailedPrecondition
//   Restore                              | -> running | FailedPrecondition       | -> running
//   RequestStop                          | no effect  | Run ends after its step  | no effect
//   Cancel                               | no effect  | ends within the step     | no effect
//   the destructor                       | ok         | cancels and waits        | ok
//
// A call that ends leaves the engine ready, errors included: a batch that is refused, memory that runs out, a
// deadline that passes leave weights, states and step as they were before the step. Only an error in the
// middle of a weight update leads to `failed`, and a Restore that succeeds leads out of it.
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
#include "armature/comm/communicator.h"
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
  // How many of the config's ranks live in this process; 0: all.
  int local_ranks = 0;
  // The group of all ranks, as local rank `local_rank` sees it: called once for each of them, on its thread.
  // The ranks of a process follow each other in the group. Null: the ranks of this process are the group.
  std::function<absl::StatusOr<std::unique_ptr<comm::Communicator>>(int local_rank)> world;
};

struct StepOptions {
  // The step ends with DeadlineExceeded if this passes before its update; weights and states are then as
  // before it.
  absl::Time deadline = absl::InfiniteFuture();
  // Sees the averaged, unclipped gradients before the update, on the caller's thread; an error ends the step
  // before it. For debugging: the views are valid only during the call, and all ranks must be in this
  // process.
  std::function<absl::Status(absl::Span<const NamedBuffer>)> on_gradients;
};

struct RunOptions {
  // Steps of this run.
  int64_t max_steps = std::numeric_limits<int64_t>::max();
  // After each step, on the caller's thread; an error ends the run and comes out of it.
  std::function<absl::Status(const StepResult&)> on_step;
  // For each save of this run that is complete, on the caller's thread, after the step in which that was
  // noticed or before Run returns; an error ends the run and comes out of it.
  std::function<absl::Status(const SaveReport&)> on_checkpoint;
};

struct RestoreResult {
  int64_t step = 0;
  // Newer checkpoints that were passed over, a line each that says why.
  std::vector<std::string> skipped;
};

// Thread-safe, in that calls from several threads end as the table says. Callbacks may call what a running
// engine allows, and must not destroy it.
class Engine {
 public:
  // Builds the model and its optimizer. A checkpoint directory is opened, and locked for other writers, but
  // nothing is restored: call Restore.
  //
  // Errors:  InvalidArgument naming the field of `config`, or what is wrong with the model; Unimplemented
  //          naming a field whose feature is not built; ResourceExhausted with the memory's figures, or if
  //          the system refuses a thread; those of Checkpointer::Open: FailedPrecondition if another engine
  //          writes into the directory or it can't be written.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineConfig& config, Model model,
                                                        Environment environment = {});
  // Cancels a running call and waits until it has left, ends a save that is being written, joins all threads.
  ~Engine();

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // One step: forward, backward and weight update over the whole batch. A batch without a counted target, or
  // whose loss or gradient norm is not finite, moves nothing: OK, with `skipped` set and counted as a step.
  //
  // Errors:  InvalidArgument if the batch lacks a field of the model or holds a value that the model has no
  //          place for, naming field, sample and value; ResourceExhausted; DeadlineExceeded; the reason
  //          given to Cancel; that of a callback.
  absl::StatusOr<StepResult> Step(const Batch& batch, const StepOptions& options = {});

  // The loss over all batches of the source, without dropout; nothing moves. Each counted target weighs the
  // same.
  //
  // Errors:  as Step; those of the source; InvalidArgument if it has no batch.
  absl::StatusOr<EvalResult> Evaluate(BatchSource& source);

  // The model's predictions for a batch, without dropout, in f32. Fields that only the loss needs are not
  // read.
  absl::StatusOr<Array> Predict(const Batch& batch);

  // Steps until the source ends, max_steps are done, RequestStop is called, or an error. Saves as the config
  // says, and once at the end unless that is an error. A save that fails ends the run with its error, after
  // the step in which that was noticed. When Run returns, none of its saves is still being written.
  //
  // Errors:  as Step and Save; those of the source, the metric sink and the callbacks. After an error of a
  //          step the source is put back to that step's batch, so that the next Run goes on as if nothing
  //          had happened.
  absl::StatusOr<RunResult> Run(BatchSource& source, const RunOptions& options = {});

  // Writes a checkpoint in the background; it exists when the handle's Wait is OK. `source`, unless null,
  // lets a later Restore go on with the batch that it would give next.
  //
  // Errors:  FailedPrecondition if the config has no checkpoint directory or a read-only one; those of
  //          Checkpointer::Save.
  absl::StatusOr<SaveHandle> Save(const BatchSource* source = nullptr);

  // Loads the newest complete checkpoint that verifies: weights, optimizer, step, and the place of `source`
  // unless it is null or the checkpoint was saved without one. On an error nothing has changed, and a failed
  // engine is still failed.
  //
  // Errors:  NotFound if there is none; InvalidArgument if it is another model's; DataLoss if all are
  //          damaged; FailedPrecondition without a directory; those of BatchSource::Restore.
  absl::StatusOr<RestoreResult> Restore(BatchSource* source = nullptr);

  // Hands each weight to `sink`, under its name, in f32. The views are valid only during the call.
  absl::Status ExportWeights(const std::function<absl::Status(const NamedBuffer&)>& sink) const;
  // Replaces all weights; optimizer states stay.
  //
  // Errors:  InvalidArgument naming a missing, extra, doubled or misshapen weight, or one that is not f32;
  //          then nothing has changed.
  absl::Status ImportWeights(absl::Span<const NamedBuffer> weights);

  // Any thread. Run ends after the step it is in, or at once if it has just begun. Not remembered: without a
  // running call it has no effect on the next one.
  void RequestStop();
  // Any thread. A running Step, Evaluate, Predict or Run ends with `why`, which must not be OK, before it
  // moves a weight; a step whose update has begun is completed. A source that blocks is not interrupted: see
  // PrefetchOptions.cancellation.
  void Cancel(absl::Status why);

  // Steps done, skipped ones included.
  int64_t step() const;
  int64_t num_parameters() const;
  // Forward and backward of the matrix products, attention included, of `samples` samples of `positions`
  // positions.
  double FlopsPerStep(int64_t samples, int64_t positions) const;
  // Of this process.
  int local_ranks() const;
  // Of one local rank; and of all of them together, where the peak is the sum of the ranks' peaks.
  MemoryCounters memory(MemoryCategory category, int local_rank = 0) const;
  MemoryCounters total_memory() const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_ENGINE_H_
