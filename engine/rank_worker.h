// RankWorker: one rank's share of the engine: its device, its blocks, its parameters. Runs on one thread.
#ifndef ARMATURE_ENGINE_RANK_WORKER_H_
#define ARMATURE_ENGINE_RANK_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "armature/base/clock.h"
#include "armature/base/thread_team.h"
#include "armature/data/batch.h"
#include "armature/engine/config.pb.h"
#include "armature/layers/block.h"
#include "armature/optim/shard/parameter_store.h"
#include "armature/optim/update_rule.h"
#include "armature/tensor/backend.h"

namespace armature {

// What the pieces of one step share.
struct StepScope {
  int64_t step = 1;
  bool training = true;
  // Asked between blocks and functions: an error ends the step. Never null.
  std::function<absl::Status()> check;
  Clock* clock = nullptr;
};

// Thread-compatible. Calls other than the constructor's belong on one thread.
class RankWorker {
 public:
  // Errors: InvalidArgument if a block can't be built; ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<RankWorker>> Create(const EngineConfig& config, const Model& model,
                                                            const UpdateRule& rule, int threads);

  // The sums of the loss terms over the batch, in config.microbatches() pieces. When training, leaves in the
  // store the gradient of sum over terms of (sum / counts[term]).
  absl::StatusOr<std::vector<double>> ForwardBackward(const Batch& batch, const std::vector<int64_t>& counts,
                                                      const StepScope& scope);
  // The last block's first output without the fields that only the loss needs, as f32 on the host.
  absl::StatusOr<Array> Predict(const Batch& batch, const StepScope& scope);

  // Of the last ForwardBackward, summed over its microbatches.
  absl::Duration forward_time() const { return forward_time_; }
  absl::Duration backward_time() const { return backward_time_; }

  ParameterStore& store() { return *store_; }
  Backend& backend() { return *backend_; }
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }

 private:
  RankWorker(const EngineConfig& config, const Model& model) : config_(config), model_(model) {}

  absl::Status Build(const UpdateRule& rule, int threads);
  // Without `with_loss`, fields that only the loss needs are left out.
  absl::StatusOr<MicroBatch> ToDevice(const Batch& batch, bool with_loss) const;
  Activations Forward(Context& context, const StepScope& scope) const;
  absl::Status MicroStep(const Batch& batch, const std::vector<int64_t>& counts, const StepScope& scope,
                         std::vector<double>& sums);
  absl::Status Backward(Tape& tape, const Activations& losses, const std::vector<int64_t>& counts,
                        const StepScope& scope) const;

  const EngineConfig& config_;
  const Model& model_;
  std::unique_ptr<ThreadTeam> team_;
  std::unique_ptr<Backend> backend_;
  ParameterRegistry registry_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<ParameterStore> store_;
  absl::Duration forward_time_, backward_time_;
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_RANK_WORKER_H_
