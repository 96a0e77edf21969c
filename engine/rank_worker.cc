#include "armature/engine/rank_worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/engine/block_gates.h"
#include "armature/engine/validate.h"
#include "armature/layers/recompute.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/mapped_memory.h"
#include "armature/tensor/ops/elementwise.h"

namespace armature {
namespace {

constexpr int kReproducibleMatmulParts = 4;

// A loss sum on the host, whatever its dtype.
absl::StatusOr<double> ToDouble(const Tensor& scalar) {
  if (scalar.ok() && scalar.num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a loss of shape ", scalar.shape().ToString(), "; the last block must return sums []"));
  }
  float value = 0;
  ARMATURE_RETURN_IF_ERROR(ops::Cast(scalar.Detach(), DType::kF32).ToHost(&value));
  return value;
}

DType DTypeOf(EngineConfig::Precision precision) {
  switch (precision) {
    case EngineConfig::BF16:
      return DType::kBF16;
    case EngineConfig::F16:
      return DType::kF16;
    default:
      return DType::kF32;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankWorker>> RankWorker::Create(const EngineConfig& config, const Model& model,
                                                               const UpdateRule& rule, int threads,
                                                               comm::Mesh& mesh) {
  std::unique_ptr<RankWorker> worker(new RankWorker(config, model, mesh));
  ARMATURE_RETURN_IF_ERROR(worker->Build(rule, threads));
  return worker;
}

absl::Status RankWorker::Build(const UpdateRule& rule, int threads) {
  team_ = std::make_unique<ThreadTeam>(threads);
  if (team_->size() != threads) {
    return absl::ResourceExhaustedError(absl::StrCat("the system gives only ", team_->size(), " of ", threads,
                                                     " threads; set threads to less"));
  }
  CpuOptions cpu;
  cpu.team = team_.get();
  cpu.memory_limit_bytes = config_.memory_limit_bytes();
  // A product's last bits depend on how it is cut, which must then not depend on the threads.
  if (config_.reproducible()) cpu.matmul_parts = kReproducibleMatmulParts;
  if (!config_.optimizer_offload_directory().empty()) {
    offload_ = std::make_unique<MappedMemory>(config_.optimizer_offload_directory());
    cpu.optimizer_memory = offload_.get();
  }
  ARMATURE_ASSIGN_OR_RETURN(backend_, MakeCpuBackend(cpu));
  ParameterStoreOptions options;
  ARMATURE_RETURN_IF_ERROR(BuildBlocks(options.blocks));
  options.seed = config_.seed();
  options.threads = team_.get();
  options.sharding = config_.parallel().sharding();
  options.shard_ranks = config_.parallel().sharding_ranks();
  options.dtype = DTypeOf(config_.precision());
  options.gradient_dtype = DTypeOf(config_.gradient_precision());
  options.reproducible = config_.reproducible();
  options.overlap = !config_.parallel().no_overlap();
  if (config_.parallel().bucket_bytes() > 0) {
    options.bucket_elements = config_.parallel().bucket_bytes() / SizeOf(options.gradient_dtype);
  }
  options.replicas = &mesh_->replicas();
  options.tensor = &mesh_->axis(comm::Axis::kTensor);
  ARMATURE_ASSIGN_OR_RETURN(store_, ParameterStore::Create(*backend_, registry_.specs(), rule, options));
  if (config_.recompute() == EngineConfig::SELECTIVE && !config_.detect_anomaly()) {
    recomputed_parts_.assign(config_.recompute_parts().begin(), config_.recompute_parts().end());
    if (recomputed_parts_.empty()) recomputed_parts_ = {kDefaultRecomputedPart};
  }
  if (config_.detect_anomaly()) {
    detector_ = std::make_unique<AnomalyDetector>(
        [this](const GradientTarget* target) { return store_->NameOf(target); });
  }
  return absl::OkStatus();
}

absl::Status RankWorker::BuildBlocks(std::vector<int>& block_of_parameter) {
  for (size_t i = 0; i < model_.blocks.size(); ++i) {
    ModuleBuilder::Shared shared;
    shared.registry = &registry_;
    shared.block = static_cast<int>(i);
    shared.tensor_rank = mesh_->coordinate(comm::Axis::kTensor);
    shared.tensor_size = mesh_->shape().tensor;
    shared.sequence_parallel = config_.parallel().sequence_parallel();
    ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<Block> block, model_.blocks[i](ModuleBuilder(shared)), "model ",
                              model_.name, ", block ", i);
    ARMATURE_RETURN_IF_ERROR(shared.status, "model ", model_.name, ", block ", i);
    if (block == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("model ", model_.name, ", block ", i, ": the builder returned null"));
    }
    blocks_.push_back(std::move(block));
    block_of_parameter.resize(registry_.specs().size(), static_cast<int>(i));
  }
  return absl::OkStatus();
}

absl::Status RankWorker::Reconnect(comm::Mesh& mesh) {
  mesh_ = &mesh;
  return store_->Reconnect(mesh.replicas(), &mesh.axis(comm::Axis::kTensor));
}

absl::StatusOr<std::vector<BatchPiece>> RankWorker::Pieces(int64_t samples) const {
  BatchSharesOptions options;
  options.data_ranks = mesh_->shape().data;
  options.microbatches = config_.microbatches();
  options.reproducible = config_.reproducible();
  options.interleaved = config_.parallel().sharding() >= 2;
  return PiecesOfRank(samples, mesh_->coordinate(comm::Axis::kData), options);
}

Context RankWorker::MakeContext(const MicroBatch& micro, Tape* tape, const StepScope& scope) const {
  Context::Options options;
  options.parameters = store_.get();
  options.batch = &micro;
  options.tape = tape;
  options.training = scope.training;
  options.seed = config_.seed();
  options.step = scope.step;
  options.recomputed_parts = recomputed_parts_;
  options.tensor.communicator = &mesh_->axis(comm::Axis::kTensor);
  options.tensor.sequence_parallel = config_.parallel().sequence_parallel();
  return Context(*backend_, options);
}

absl::StatusOr<MicroBatch> RankWorker::ToDevice(const Batch& batch, bool with_loss) const {
  MicroBatch micro;
  micro.samples = batch.num_samples();
  micro.first_sample = batch.first_sample;
  const auto is_only_for_loss = [this](const Batch::Field& field) {
    return std::any_of(model_.inputs.begin(), model_.inputs.end(),
                       [&](const InputSpec& spec) { return spec.only_for_loss && spec.name == field.name; });
  };
  for (const Batch::Field& field : batch.fields) {
    if (!with_loss && is_only_for_loss(field)) continue;
    const Array& array = field.array;
    Tensor tensor = Tensor::FromHostBytes(*backend_, array.shape(), array.bytes().data(), array.size_bytes(),
                                          array.dtype(), MemoryCategory::kOther);
    ARMATURE_RETURN_IF_ERROR(tensor.status(), "batch field \"", field.name, "\"");
    micro.fields.emplace_back(field.name, std::move(tensor));
  }
  return micro;
}

// The first block has nothing to keep, and the last one's backward follows at once: nothing is gained there.
bool RankWorker::RecomputesBlock(size_t block) const {
  if (config_.recompute() != EngineConfig::FULL || config_.detect_anomaly()) return false;
  if (block == 0 || block + 1 >= blocks_.size()) return false;
  return (block - 1) % std::max(config_.recompute_every(), 1) == 0;
}

Activations RankWorker::Forward(Context& context, const StepScope& scope) const {
  Activations activations;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const absl::Status status = scope.check();
    if (!status.ok()) return {Tensor::Failed(status)};
    const auto run = [&](const Activations& in) {
      return RecomputesBlock(i) ? Recompute(context, in, *blocks_[i]) : blocks_[i]->Forward(context, in);
    };
    activations = store_->follows_blocks() ? RunGated(context, *store_, static_cast<int>(i), activations, run)
                                           : run(activations);
  }
  return activations;
}

absl::Status RankWorker::Backward(Tape& tape, const Activations& losses, double weight,
                                  const std::vector<int64_t>& counts, const StepScope& scope) const {
  std::vector<Tensor> seeds;
  for (size_t term = 0; term < losses.size(); ++term) {
    const float seed = counts[term] > 0
                           ? static_cast<float>(weight * scope.loss_scale / static_cast<double>(counts[term]))
                           : 0.0f;
    const Tensor f32 =
        Tensor::FromHost<float>(*backend_, Shape(), absl::MakeConstSpan(&seed, 1), DType::kF32);
    seeds.push_back(ops::Cast(f32, losses[term].dtype()).Reshape(losses[term].shape()));
  }
  BackwardOptions options;
  options.check = scope.check;
  return tape.Backward(losses, seeds, options);
}

absl::Status RankWorker::MicroStep(const Batch& batch, double weight, const std::vector<int64_t>& counts,
                                   const StepScope& scope, std::vector<double>& sums) {
  const absl::Time start = scope.clock->Now();
  ARMATURE_ASSIGN_OR_RETURN(const MicroBatch micro, ToDevice(batch, /*with_loss=*/true));
  Tape tape(*backend_, detector_.get());
  Context context = MakeContext(micro, scope.training ? &tape : nullptr, scope);
  const Activations losses = Forward(context, scope);
  if (losses.size() != model_.losses.size()) {
    for (const Tensor& loss : losses) ARMATURE_RETURN_IF_ERROR(loss.status());
    return absl::InvalidArgumentError(absl::StrCat("model ", model_.name, " returned ", losses.size(),
                                                   " losses and declares ", model_.losses.size()));
  }
  for (size_t term = 0; term < losses.size(); ++term) {
    ARMATURE_ASSIGN_OR_RETURN(const double sum, ToDouble(losses[term]));
    if (weight != 0) sums[term] += sum;
  }
  // Reading the losses has waited for the forward.
  const absl::Time middle = scope.clock->Now();
  forward_time_ += middle - start;
  if (!scope.training) return absl::OkStatus();
  ARMATURE_RETURN_IF_ERROR(Backward(tape, losses, weight, counts, scope));
  ARMATURE_RETURN_IF_ERROR(backend_->compute_stream().Synchronize());
  ARMATURE_RETURN_IF_ERROR(store_->EndMicrobatch());
  backward_time_ += scope.clock->Now() - middle;
  return absl::OkStatus();
}

absl::StatusOr<StepAgreement> RankWorker::ForwardBackward(const Batch& batch,
                                                          const std::vector<int64_t>& counts,
                                                          const StepScope& scope) {
  const int64_t samples = batch.num_samples();
  ARMATURE_ASSIGN_OR_RETURN(std::vector<BatchPiece> pieces, Pieces(samples));
  // Where blocks are gathered and gradients reduced piece by piece, every rank takes part in every piece.
  const bool in_step = config_.parallel().sharding() >= 2;
  if (!in_step) {
    pieces.erase(
        std::remove_if(pieces.begin(), pieces.end(), [](auto& piece) { return piece.samples() == 0; }),
        pieces.end());
  }
  forward_time_ = backward_time_ = absl::ZeroDuration();
  if (scope.training) store_->BeginStep(static_cast<int>(pieces.size()));
  if (detector_ != nullptr) detector_->BeginStep();
  std::vector<double> sums(model_.losses.size(), 0.0);
  for (const BatchPiece& piece : pieces) {
    if (piece.samples() == samples) {
      ARMATURE_RETURN_IF_ERROR(MicroStep(batch, 1, counts, scope, sums));
    } else if (piece.samples() > 0) {
      ARMATURE_ASSIGN_OR_RETURN(const Batch part, batch.Slice(piece.begin, piece.end));
      ARMATURE_RETURN_IF_ERROR(MicroStep(part, 1, counts, scope, sums));
    } else {
      ARMATURE_ASSIGN_OR_RETURN(const Batch any, batch.Slice(0, 1));
      ARMATURE_RETURN_IF_ERROR(MicroStep(any, 0, counts, scope, sums));
    }
  }
  if (scope.training) {
    const absl::Time start = scope.clock->Now();
    ARMATURE_RETURN_IF_ERROR(store_->FinishGradients());
    backward_time_ += scope.clock->Now() - start;
  }
  if (detector_ != nullptr) anomaly_ = detector_->found();
  return Agree(sums, scope);
}

absl::StatusOr<StepAgreement> RankWorker::Agree(const std::vector<double>& loss_sums,
                                                const StepScope& scope) {
  // The last moment at which a deadline or Cancel counts: from here on all ranks do the same.
  ARMATURE_RETURN_IF_ERROR(scope.check());
  const auto all_reduce = [this](absl::Span<double> values, comm::ReduceOp op) {
    const BufferView view = {values.data(), static_cast<int64_t>(values.size()), DType::kF64, Device()};
    return AddContext(mesh_->world().AllReduce(view, op).Wait(), "agreeing on the step");
  };
  // Ranks of one tensor group have the same losses.
  const bool speaks = mesh_->coordinate(comm::Axis::kTensor) == 0;
  std::vector<double> sums(loss_sums.size(), 0.0);
  if (speaks) sums = loss_sums;
  if (!scope.training) {
    store_->ReleaseBlocks();
    ARMATURE_RETURN_IF_ERROR(all_reduce(absl::MakeSpan(sums), comm::ReduceOp::kSum));
    return StepAgreement{std::move(sums), 0};
  }
  ExactSum squares;
  if (config_.reproducible()) {
    double largest = store_->LargestGradient();
    ARMATURE_RETURN_IF_ERROR(all_reduce(absl::MakeSpan(&largest, 1), comm::ReduceOp::kMax));
    if (std::isfinite(largest)) {
      squares = store_->GradientSquaresExactly(largest);
    } else {
      squares.bins[0] = largest;
    }
  } else {
    squares.bins[0] = store_->GradientSquares();
  }
  sums.insert(sums.end(), squares.bins.begin(), squares.bins.end());
  ARMATURE_RETURN_IF_ERROR(all_reduce(absl::MakeSpan(sums), comm::ReduceOp::kSum));
  const size_t terms = loss_sums.size();
  for (size_t bin = 0; bin < squares.bins.size(); ++bin) squares.bins[bin] = sums[terms + bin];
  sums.resize(terms);
  return StepAgreement{std::move(sums), squares.ToDouble() / (scope.loss_scale * scope.loss_scale)};
}

absl::StatusOr<absl::optional<Array>> RankWorker::Predict(const Batch& batch, const StepScope& scope) {
  const int64_t ranks = mesh_->shape().data, rank = mesh_->coordinate(comm::Axis::kData);
  const int64_t samples = batch.num_samples();
  const BatchPiece own = {samples * rank / ranks, samples * (rank + 1) / ranks};
  // Without a sample it computes one all the same: other ranks wait for its part of the weights.
  ARMATURE_ASSIGN_OR_RETURN(const Batch part,
                            own.samples() > 0 ? batch.Slice(own.begin, own.end) : batch.Slice(0, 1));
  ARMATURE_ASSIGN_OR_RETURN(const MicroBatch micro, ToDevice(part, /*with_loss=*/false));
  Context context = MakeContext(micro, nullptr, scope);
  const Activations out = Forward(context, scope);
  if (out.empty())
    return absl::InvalidArgumentError(absl::StrCat("model ", model_.name, " predicts nothing"));
  const Tensor predictions = ops::Cast(out[0], DType::kF32);
  ARMATURE_RETURN_IF_ERROR(predictions.status());
  store_->ReleaseBlocks();
  if (own.samples() == 0 || mesh_->coordinate(comm::Axis::kTensor) != 0) return absl::optional<Array>();
  ARMATURE_ASSIGN_OR_RETURN(Array array, Array::Create(predictions.shape(), DType::kF32));
  ARMATURE_RETURN_IF_ERROR(predictions.ToHost(array.view().data));
  return absl::optional<Array>(std::move(array));
}

}  // namespace armature
