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
#include "absl/types/optional.h"
#include "armature/base/clock.h"
#include "armature/base/thread_team.h"
#include "armature/comm/mesh.h"
#include "armature/data/batch.h"
#include "armature/engine/anomaly_detector.h"
#include "armature/engine/batch_shares.h"
#include "armature/engine/config.pb.h"
#include "armature/layers/block.h"
#include "armature/optim/shard/parameter_store.h"
#include "armature/optim/update_rule.h"
#include "armature/tensor/backend.h"

namespace armature {

// What the pieces of one step share. The same on every rank.
struct StepScope {
  int64_t step = 1;
  bool training = true;
  // Multiplies the gradients; f16 needs it.
  double loss_scale = 1;
  // Asked between blocks and functions: an error ends the step. Never null.
  std::function<absl::Status()> check;
  Clock* clock = nullptr;
};

// What the ranks of a step agree on before its update: the same bits on all of them.
struct StepAgreement {
  std::vector<double> loss_sums;  // over the whole batch
  double gradient_squares = 0;    // of the whole gradient, the loss scale taken out
};

// Thread-compatible. Calls other than the constructor's belong on one thread, and are made on all ranks of
// the mesh together.
class RankWorker {
 public:
  // Errors: InvalidArgument if a block can't be built; ResourceExhausted; those of the groups.
  static absl::StatusOr<std::unique_ptr<RankWorker>> Create(const EngineConfig& config, const Model& model,
                                                            const UpdateRule& rule, int threads,
                                                            comm::Mesh& mesh);

  // Forward and, when training, backward over this rank's share of the batch; then the ranks' sums. When
  // training, leaves in the store the gradient of sum over terms of (sum / counts[term]), times the loss
  // scale.
  absl::StatusOr<StepAgreement> ForwardBackward(const Batch& batch, const std::vector<int64_t>& counts,
                                                const StepScope& scope);
  // The last block's first output without the fields that only the loss needs, as f32 on the host: of this
  // rank's share of the samples. Empty where that has none, and on ranks whose output another one gives.
  absl::StatusOr<absl::optional<Array>> Predict(const Batch& batch, const StepScope& scope);

  // The first operation of the last ForwardBackward whose result was not finite, or "": only if the config
  // asks for it.
  const std::string& anomaly() const { return anomaly_; }
  // Of the last ForwardBackward, summed over its microbatches.
  absl::Duration forward_time() const { return forward_time_; }
  absl::Duration backward_time() const { return backward_time_; }

  // Fails all groups of this rank, so that no other waits for it.
  void Abort(const absl::Status& why) { store_->Abort(why); }
  // After an error, once the groups have failed: nothing works in the background any more.
  void Abandon() { store_->Abandon(); }
  // Goes on with new groups of the same ranks.
  absl::Status Reconnect(comm::Mesh& mesh);

  const comm::Mesh& mesh() const { return *mesh_; }
  ParameterStore& store() { return *store_; }
  Backend& backend() { return *backend_; }
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }
  const ParameterRegistry& registry() const { return registry_; }

 private:
  RankWorker(const EngineConfig& config, const Model& model, comm::Mesh& mesh)
      : config_(config), model_(model), mesh_(&mesh) {}

  absl::Status Build(const UpdateRule& rule, int threads);
  absl::Status BuildBlocks(std::vector<int>& block_of_parameter);
  absl::StatusOr<std::vector<BatchPiece>> Pieces(int64_t samples) const;
  Context MakeContext(const MicroBatch& micro, Tape* tape, const StepScope& scope) const;
  // Without `with_loss`, fields that only the loss needs are left out.
  absl::StatusOr<MicroBatch> ToDevice(const Batch& batch, bool with_loss) const;
  Activations Forward(Context& context, const StepScope& scope) const;
  bool RecomputesBlock(size_t block) const;
  // `weight` 0: only so that other ranks are not left waiting; the loss does not count.
  absl::Status MicroStep(const Batch& batch, double weight, const std::vector<int64_t>& counts,
                         const StepScope& scope, std::vector<double>& sums);
  absl::Status Backward(Tape& tape, const Activations& losses, double weight,
                        const std::vector<int64_t>& counts, const StepScope& scope) const;
  absl::StatusOr<StepAgreement> Agree(const std::vector<double>& loss_sums, const StepScope& scope);

  const EngineConfig& config_;
  const Model& model_;
  std::vector<std::string> recomputed_parts_;
  comm::Mesh* mesh_;
  std::unique_ptr<ThreadTeam> team_;
  std::unique_ptr<RawMemory> offload_;
  std::unique_ptr<Backend> backend_;
  ParameterRegistry registry_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<ParameterStore> store_;
  absl::Duration forward_time_, backward_time_;
  std::unique_ptr<AnomalyDetector> detector_;
  std::string anomaly_;
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_RANK_WORKER_H_
