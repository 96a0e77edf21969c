#include "armature/engine/rank_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/layers/recompute.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/elementwise.h"

namespace armature {
namespace {

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

}  // namespace

absl::StatusOr<std::unique_ptr<RankWorker>> RankWorker::Create(const EngineConfig& config, const Model& model,
                                                               const UpdateRule& rule, int threads) {
  std::unique_ptr<RankWorker> worker(new RankWorker(config, model));
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
  ARMATURE_ASSIGN_OR_RETURN(backend_, MakeCpuBackend(cpu));
  for (size_t i = 0; i < model_.blocks.size(); ++i) {
    ModuleBuilder::Shared shared;
    shared.registry = &registry_;
    shared.block = static_cast<int>(i);
    ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<Block> block, model_.blocks[i](ModuleBuilder(shared)), "model ",
                              model_.name, ", block ", i);
    ARMATURE_RETURN_IF_ERROR(shared.status, "model ", model_.name, ", block ", i);
    if (block == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("model ", model_.name, ", block ", i, ": the builder returned null"));
    }
    blocks_.push_back(std::move(block));
  }
  ParameterStoreOptions options;
  options.seed = config_.seed();
  options.threads = team_.get();
  ARMATURE_ASSIGN_OR_RETURN(store_, ParameterStore::Create(*backend_, registry_.specs(), rule, options));
  return absl::OkStatus();
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

Activations RankWorker::Forward(Context& context, const StepScope& scope) const {
  Activations activations;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const absl::Status status = scope.check();
    if (!status.ok()) return {Tensor::Failed(status)};
    // The first block has nothing to keep, and the last one's backward follows at once: nothing is gained
    // there.
    const bool recompute = config_.recompute() == EngineConfig::FULL && i > 0 && i + 1 < blocks_.size();
    activations =
        recompute ? Recompute(context, activations, *blocks_[i]) : blocks_[i]->Forward(context, activations);
  }
  return activations;
}

absl::Status RankWorker::Backward(Tape& tape, const Activations& losses, const std::vector<int64_t>& counts,
                                  const StepScope& scope) const {
  std::vector<Tensor> seeds;
  for (size_t term = 0; term < losses.size(); ++term) {
    const float seed = counts[term] > 0 ? 1.0f / static_cast<float>(counts[term]) : 0.0f;
    const Tensor f32 =
        Tensor::FromHost<float>(*backend_, Shape(), absl::MakeConstSpan(&seed, 1), DType::kF32);
    seeds.push_back(ops::Cast(f32, losses[term].dtype()).Reshape(losses[term].shape()));
  }
  BackwardOptions options;
  options.check = scope.check;
  return tape.Backward(losses, seeds, options);
}

absl::Status RankWorker::MicroStep(const Batch& batch, const std::vector<int64_t>& counts,
                                   const StepScope& scope, std::vector<double>& sums) {
  const absl::Time start = scope.clock->Now();
  ARMATURE_ASSIGN_OR_RETURN(const MicroBatch micro, ToDevice(batch, /*with_loss=*/true));
  Tape tape(*backend_);
  Context::Options options;
  options.parameters = store_.get();
  options.batch = &micro;
  options.tape = scope.training ? &tape : nullptr;
  options.training = scope.training;
  options.seed = config_.seed();
  options.step = scope.step;
  Context context(*backend_, options);
  const Activations losses = Forward(context, scope);
  if (losses.size() != model_.losses.size()) {
    for (const Tensor& loss : losses) ARMATURE_RETURN_IF_ERROR(loss.status());
    return absl::InvalidArgumentError(absl::StrCat("model ", model_.name, " returned ", losses.size(),
                                                   " losses and declares ", model_.losses.size()));
  }
  for (size_t term = 0; term < losses.size(); ++term) {
    ARMATURE_ASSIGN_OR_RETURN(const double sum, ToDouble(losses[term]));
    sums[term] += sum;
  }
  // Reading the losses has waited for the forward.
  const absl::Time middle = scope.clock->Now();
  forward_time_ += middle - start;
  if (!scope.training) return absl::OkStatus();
  ARMATURE_RETURN_IF_ERROR(Backward(tape, losses, counts, scope));
  ARMATURE_RETURN_IF_ERROR(backend_->compute_stream().Synchronize());
  backward_time_ += scope.clock->Now() - middle;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> RankWorker::ForwardBackward(const Batch& batch,
                                                                const std::vector<int64_t>& counts,
                                                                const StepScope& scope) {
  const int64_t samples = batch.num_samples();
  const int64_t pieces = std::min<int64_t>(std::max(config_.microbatches(), 1), samples);
  forward_time_ = backward_time_ = absl::ZeroDuration();
  if (scope.training) store_->BeginStep();
  std::vector<double> sums(model_.losses.size(), 0.0);
  if (pieces == 1) {
    ARMATURE_RETURN_IF_ERROR(MicroStep(batch, counts, scope, sums));
  } else {
    for (int64_t piece = 0; piece < pieces; ++piece) {
      // Pieces of nearly equal length.
      ARMATURE_ASSIGN_OR_RETURN(const Batch part,
                                batch.Slice(samples * piece / pieces, samples * (piece + 1) / pieces));
      ARMATURE_RETURN_IF_ERROR(MicroStep(part, counts, scope, sums));
    }
  }
  if (scope.training) ARMATURE_RETURN_IF_ERROR(store_->FinishGradients());
  return sums;
}

absl::StatusOr<Array> RankWorker::Predict(const Batch& batch, const StepScope& scope) {
  ARMATURE_ASSIGN_OR_RETURN(const MicroBatch micro, ToDevice(batch, /*with_loss=*/false));
  Context::Options options;
  options.parameters = store_.get();
  options.batch = &micro;
  options.seed = config_.seed();
  options.step = scope.step;
  Context context(*backend_, options);
  const Activations out = Forward(context, scope);
  if (out.empty())
    return absl::InvalidArgumentError(absl::StrCat("model ", model_.name, " predicts nothing"));
  const Tensor predictions = ops::Cast(out[0], DType::kF32);
  ARMATURE_RETURN_IF_ERROR(predictions.status());
  ARMATURE_ASSIGN_OR_RETURN(Array array, Array::Create(predictions.shape(), DType::kF32));
  ARMATURE_RETURN_IF_ERROR(predictions.ToHost(array.view().data));
  return array;
}

}  // namespace armature
