// One step: forward, backward and weight update. Until the update begins, nothing that a later step sees has
// moved.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/engine/engine_impl.h"
#include "armature/engine/validate.h"
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

absl::StatusOr<StepResult> Engine::Impl::Step(const Call& call, const Batch& batch,
                                              const StepOptions& options) {
  ARMATURE_RETURN_IF_ERROR(ValidateBatch(batch, model_, /*with_loss=*/true));
  const absl::Time start = environment_.clock->Now();
  const std::vector<int64_t> counts = CountTargets(batch, model_);
  const StepScope scope = Scope(call, step() + 1, /*training=*/true, options.deadline);
  StepResult result;
  result.step = scope.step;
  result.tokens = counts[0];
  result.learning_rate = schedule_->LearningRate(updates_ + 1);
  absl::Status status;
  thread_->Run([&] {
    absl::StatusOr<std::vector<double>> sums = worker_->ForwardBackward(batch, counts, scope);
    status = sums.status();
    if (!status.ok()) return;
    result.losses = Losses(*sums, counts);
    result.loss = Total(result.losses);
    if (std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count == 0; })) {
      result.skip_reason = "the batch has no counted target";
      return;
    }
    const absl::Time before_update = environment_.clock->Now();
    status = Update(scope, options, result);
    result.update = environment_.clock->Now() - before_update;
  });
  ARMATURE_RETURN_IF_ERROR(status);
  step_.store(result.step);
  result.skipped = !result.skip_reason.empty();
  result.updates = updates_;
  result.forward = worker_->forward_time();
  result.backward = worker_->backward_time();
  result.duration = environment_.clock->Now() - start;
  return result;
}

// Sets result.skip_reason, or moves the weights.
absl::Status Engine::Impl::Update(const StepScope& scope, const StepOptions& options, StepResult& result) {
  ParameterStore& store = worker_->store();
  if (options.on_gradients != nullptr) ARMATURE_RETURN_IF_ERROR(options.on_gradients(store.Gradients()));
  result.grad_norm = std::sqrt(store.GradientSquares());
  const double max_norm =
      config_.clip_norm() > 0 ? config_.clip_norm() : std::numeric_limits<double>::infinity();
  const absl::optional<float> factor = ClipFactor(result.grad_norm, max_norm);
  if (!std::isfinite(result.loss)) result.skip_reason = "the loss is not finite";
  if (!factor.has_value()) result.skip_reason = "the gradients' norm is not finite";
  // The last moment at which a deadline or Cancel counts.
  ARMATURE_RETURN_IF_ERROR(scope.check());
  if (!result.skip_reason.empty()) return absl::OkStatus();
  StepFacts facts;
  facts.count = updates_ + 1;
  facts.learning_rate = result.learning_rate;
  facts.gradient_scale = *factor;
  const absl::Status updated = AddContext(store.Update(*rule_, facts), "weight update of step ", scope.step);
  if (!updated.ok()) {
    gate_.Fail(updated);
    return updated;
  }
  ++updates_;
  return absl::OkStatus();
}

}  // namespace armature
