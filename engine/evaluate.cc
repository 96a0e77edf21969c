// The forward alone, without dropout: nothing moves.
#include "armature/base/status_macros.h"
#include "armature/engine/engine_impl.h"
#include "armature/engine/validate.h"

namespace armature {

absl::StatusOr<EvalResult> Engine::Impl::Evaluate(const Call& call, BatchSource& source) {
  EvalResult result;
  std::vector<double> sums(model_.losses.size(), 0.0);
  std::vector<int64_t> counts(model_.losses.size(), 0);
  const StepScope scope = Scope(call, step(), /*training=*/false, absl::InfiniteFuture());
  while (true) {
    ARMATURE_RETURN_IF_ERROR(scope.check());
    ARMATURE_ASSIGN_OR_RETURN(absl::optional<Batch> batch, source.Next());
    if (!batch.has_value()) break;
    ARMATURE_RETURN_IF_ERROR(ValidateBatch(*batch, model_, /*with_loss=*/true));
    const std::vector<int64_t> batch_counts = CountTargets(*batch, model_);
    absl::StatusOr<std::vector<double>> batch_sums;
    thread_->Run([&] { batch_sums = worker_->ForwardBackward(*batch, batch_counts, scope); });
    ARMATURE_RETURN_IF_ERROR(batch_sums.status());
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += (*batch_sums)[i];
      counts[i] += batch_counts[i];
    }
    ++result.batches;
  }
  if (result.batches == 0) return absl::InvalidArgumentError("Evaluate: the source has no batch");
  result.losses = Losses(sums, counts);
  result.loss = Total(result.losses);
  result.tokens = counts[0];
  return result;
}

absl::StatusOr<Array> Engine::Impl::Predict(const Call& call, const Batch& batch) {
  ARMATURE_RETURN_IF_ERROR(ValidateBatch(batch, model_, /*with_loss=*/false));
  const StepScope scope = Scope(call, step(), /*training=*/false, absl::InfiniteFuture());
  absl::StatusOr<Array> predictions;
  thread_->Run([&] { predictions = worker_->Predict(batch, scope); });
  return predictions;
}

}  // namespace armature
