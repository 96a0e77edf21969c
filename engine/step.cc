// One step: forward, backward and weight update. Until the update begins, nothing that a later step sees has
// moved.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/engine/engine_impl.h"
#include "armature/engine/validate.h"
#include "armature/engine/whole_arrays.h"
#include "armature/optim/clip.h"

namespace armature {

StepScope Engine::Impl::Scope(const Call& call, int64_t step, bool training, absl::Time deadline) const {
  StepScope scope;
  scope.step = step;
  scope.training = training;
  scope.clock = environment_.clock;
  scope.check = [clock = environment_.clock, step, deadline, token = call.token()]() -> absl::Status {
    if (token.cancelled()) return token.status();
    if (deadline != absl::InfiniteFuture() && clock->Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("step ", step, ": the deadline ", absl::FormatTime(deadline), " has passed"));
    }
    return absl::OkStatus();
  };
  return scope;
}

std::vector<std::pair<std::string, double>> Engine::Impl::Losses(const std::vector<double>& sums,
                                                                 const std::vector<int64_t>& counts) const {
  std::vector<std::pair<std::string, double>> losses;
  for (size_t i = 0; i < model_.losses.size(); ++i) {
    losses.emplace_back(model_.losses[i].name,
                        counts[i] > 0 ? sums[i] / static_cast<double>(counts[i]) : 0.0);
  }
  return losses;
}

double Total(const std::vector<std::pair<std::string, double>>& losses) {
  double total = 0;
  for (const auto& [name, loss] : losses) total += loss;
  return total;
}

absl::StatusOr<StepAgreement> Engine::Impl::ForwardBackward(const Batch& batch,
                                                            const std::vector<int64_t>& counts,
                                                            const StepScope& scope) {
  std::vector<StepAgreement> agreements(ranks_->count());
  const absl::Status status = ranks_->Run([&](RankWorker& worker) -> absl::Status {
    const int index = worker.mesh().world().rank() % ranks_->count();
    ARMATURE_ASSIGN_OR_RETURN(agreements[index], worker.ForwardBackward(batch, counts, scope));
    return absl::OkStatus();
  });
  if (!status.ok()) {
    for (int i = 0; i < ranks_->count(); ++i) ranks_->worker(i).Abandon();
    return status;
  }
  return agreements[0];
}

std::string Engine::Impl::FirstAnomaly() const {
  for (int i = 0; i < ranks_->count(); ++i) {
    const std::string& anomaly = ranks_->worker(i).anomaly();
    if (anomaly.empty()) continue;
    const comm::Communicator& world = ranks_->worker(i).mesh().world();
    return world.size() == 1 ? anomaly : absl::StrCat("rank ", world.rank(), ": ", anomaly);
  }
  return "";
}

absl::Status Engine::Impl::CheckReplicas() {
  const absl::Status same = AddContext(
      ranks_->Run([](RankWorker& worker) { return worker.store().CheckReplicas(); }), "step ", step());
  if (!same.ok()) gate_.Fail(same);
  return same;
}

absl::StatusOr<StepResult> Engine::Impl::Step(const Call& call, const Batch& batch,
                                              const StepOptions& options) {
  ARMATURE_RETURN_IF_ERROR(ValidateBatch(batch, model_, /*with_loss=*/true));
  const absl::Time start = environment_.clock->Now();
  const std::vector<int64_t> counts = CountTargets(batch, model_);
  StepScope scope = Scope(call, step() + 1, /*training=*/true, options.deadline);
  if (scaler_.has_value()) scope.loss_scale = scaler_->scale();
  StepResult result;
  result.step = scope.step;
  result.tokens = counts[0];
  result.loss_scale = scope.loss_scale;
  result.learning_rate = schedule_->LearningRate(updates_ + 1);
  ARMATURE_ASSIGN_OR_RETURN(const StepAgreement agreement, ForwardBackward(batch, counts, scope));
  result.anomaly = FirstAnomaly();
  result.losses = Losses(agreement.loss_sums, counts);
  result.loss = Total(result.losses);
  result.grad_norm = std::sqrt(agreement.gradient_squares);
  if (std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count == 0; })) {
    result.skip_reason = "the batch has no counted target";
  } else {
    const absl::Time before_update = environment_.clock->Now();
    ARMATURE_RETURN_IF_ERROR(Update(scope, options, result));
    result.update = environment_.clock->Now() - before_update;
  }
  step_.store(result.step);
  if (config_.check_replicas_every() > 0 && result.step % config_.check_replicas_every() == 0) {
    ARMATURE_RETURN_IF_ERROR(CheckReplicas());
  }
  result.skipped = !result.skip_reason.empty();
  result.updates = updates_;
  for (int i = 0; i < ranks_->count(); ++i) {
    RankWorker& worker = ranks_->worker(i);
    result.forward = std::max(result.forward, worker.forward_time());
    result.backward = std::max(result.backward, worker.backward_time());
    result.reducing = std::max(result.reducing, worker.store().gradients().reducing());
    result.reducing_waited = std::max(result.reducing_waited, worker.store().gradients().waited());
  }
  result.duration = environment_.clock->Now() - start;
  return result;
}

// Sets result.skip_reason, or moves the weights. All ranks, of this and of other processes, come to the same
// decision from what they agreed on.
absl::Status Engine::Impl::Update(const StepScope& scope, const StepOptions& options, StepResult& result) {
  if (options.on_gradients != nullptr) {
    ARMATURE_RETURN_IF_ERROR(ShowGradients(options, scope.loss_scale));
    ARMATURE_RETURN_IF_ERROR(scope.check());
  }
  const double max_norm =
      config_.clip_norm() > 0 ? config_.clip_norm() : std::numeric_limits<double>::infinity();
  const absl::optional<float> factor = ClipFactor(result.grad_norm, max_norm);
  if (!std::isfinite(result.loss)) result.skip_reason = "the loss is not finite";
  if (!factor.has_value()) result.skip_reason = "the gradients' norm is not finite";
  if (scaler_.has_value())
    ARMATURE_RETURN_IF_ERROR(scaler_->EndStep(result.skip_reason.empty()), "loss scale");
  if (!result.skip_reason.empty()) return absl::OkStatus();
  StepFacts facts;
  facts.count = updates_ + 1;
  facts.learning_rate = result.learning_rate;
  facts.gradient_scale = *factor / scope.loss_scale;
  const absl::Status updated =
      AddContext(ranks_->Run([&](RankWorker& worker) { return worker.store().Update(*rule_, facts); }),
                 "weight update of step ", result.step);
  if (!updated.ok()) {
    gate_.Fail(updated);
    return updated;
  }
  ++updates_;
  return absl::OkStatus();
}

absl::Status Engine::Impl::ShowGradients(const StepOptions& options, double scale) {
  std::vector<std::vector<float>> memory;
  std::vector<NamedBuffer> gradients;
  ARMATURE_RETURN_IF_ERROR(ForEachWhole(ranks_->worker(0).registry().specs(),
                                        Slices(ParameterStore::Kind::kGradients, /*once=*/true),
                                        [&](const NamedBuffer& gradient) {
                                          const float* values = static_cast<const float*>(gradient.view.data);
                                          memory.emplace_back(values, values + gradient.view.count);
                                          for (float& value : memory.back())
                                            value /= static_cast<float>(scale);
                                          gradients.push_back(gradient);
                                          gradients.back().view.data = memory.back().data();
                                          return absl::OkStatus();
                                        }),
                           "on_gradients");
  return options.on_gradients(gradients);
}

}  // namespace armature
