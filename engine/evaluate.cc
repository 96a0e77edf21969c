// The forward alone, without dropout: nothing moves.
#include <algorithm>
#include <cstring>

#include "armature/base/status_macros.h"
#include "armature/engine/engine_impl.h"
#include "armature/engine/validate.h"

namespace armature {
namespace {

// The samples of all parts, in their order.
absl::StatusOr<Array> Joined(std::vector<absl::optional<Array>> parts) {
  parts.erase(std::remove_if(parts.begin(), parts.end(), [](auto& part) { return !part.has_value(); }),
              parts.end());
  if (parts.empty()) return absl::UnimplementedError("the predictions lie in another process");
  if (parts.size() == 1) return *std::move(parts[0]);
  int64_t samples = 0;
  for (const absl::optional<Array>& part : parts) samples += part->shape().dim(0);
  ARMATURE_ASSIGN_OR_RETURN(Array joined, Array::Create(parts[0]->shape().WithDim(0, samples), DType::kF32));
  char* to = static_cast<char*>(joined.view().data);
  for (const absl::optional<Array>& part : parts) {
    std::memcpy(to, part->bytes().data(), part->size_bytes());
    to += part->size_bytes();
  }
  return joined;
}

}  // namespace

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
    ARMATURE_ASSIGN_OR_RETURN(const StepAgreement agreement, ForwardBackward(*batch, batch_counts, scope));
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += agreement.loss_sums[i];
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
  std::vector<absl::optional<Array>> parts(ranks_->count());
  ARMATURE_RETURN_IF_ERROR(ranks_->Run([&](RankWorker& worker) -> absl::Status {
    ARMATURE_ASSIGN_OR_RETURN(parts[worker.mesh().world().rank() % ranks_->count()],
                              worker.Predict(batch, scope));
    return absl::OkStatus();
  }));
  return Joined(std::move(parts));
}

}  // namespace armature
