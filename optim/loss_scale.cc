#include "armature/optim/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/optim/option_checks.h"

namespace armature {

absl::StatusOr<LossScaler> LossScaler::Create(const LossScalerOptions& options) {
  ARMATURE_RETURN_IF_ERROR(CheckPositive("min_scale", options.min_scale), "loss scale");
  ARMATURE_RETURN_IF_ERROR(
      CheckOption(options.max_scale >= options.min_scale && std::isfinite(options.max_scale), "max_scale",
                  options.max_scale, absl::StrCat("finite and at least min_scale, ", options.min_scale)),
      "loss scale");
  ARMATURE_RETURN_IF_ERROR(
      CheckOption(options.initial_scale >= options.min_scale && options.initial_scale <= options.max_scale,
                  "initial_scale", options.initial_scale,
                  absl::StrCat("in [min_scale, max_scale], which is [", options.min_scale, ", ",
                               options.max_scale, "]")),
      "loss scale");
  ARMATURE_RETURN_IF_ERROR(CheckOption(options.growth >= 1 && std::isfinite(options.growth), "growth",
                                       options.growth, "finite and at least 1"),
                           "loss scale");
  ARMATURE_RETURN_IF_ERROR(
      CheckOption(options.backoff > 0 && options.backoff < 1, "backoff", options.backoff, "in (0, 1)"),
      "loss scale");
  ARMATURE_RETURN_IF_ERROR(CheckOption(options.growth_interval >= 1, "growth_interval",
                                       static_cast<double>(options.growth_interval), "at least 1"),
                           "loss scale");
  return LossScaler(options);
}

absl::Status LossScaler::EndStep(bool finite) {
  if (!finite) {
    if (state_.scale <= options_.min_scale) {
      return absl::FailedPreconditionError(
          absl::StrCat("gradients are not finite even at the smallest loss scale, ", options_.min_scale,
                       ": the loss diverged"));
    }
    state_ = {std::max(options_.min_scale, state_.scale * options_.backoff), 0};
    return absl::OkStatus();
  }
  if (++state_.good_steps >= options_.growth_interval) {
    state_ = {std::min(options_.max_scale, state_.scale * options_.growth), 0};
  }
  return absl::OkStatus();
}

absl::Status LossScaler::Restore(const State& state) {
  if (!(state.scale > 0) || !std::isfinite(state.scale) || state.good_steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no state of a loss scaler: scale ", state.scale, ", good steps ", state.good_steps));
  }
  state_ = {std::min(std::max(state.scale, options_.min_scale), options_.max_scale), state.good_steps};
  return absl::OkStatus();
}

}  // namespace armature
