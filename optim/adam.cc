#include "armature/optim/adam.h"

#include <cmath>

#include "armature/base/status_macros.h"
#include "armature/optim/option_checks.h"
#include "armature/optim/update_ranges.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/adam.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/optim/lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace HWY_NAMESPACE {

// rate is lr / (1 - beta1^t), root_scale 1 / sqrt(1 - beta2^t). l2 is added to the gradient, and the weight
// multiplied by `kept` before the step: one of them does nothing.
void AdamLanes(const UpdateRange& range, const AdamOptions& options, float rate, float root_scale, float l2,
               float kept) {
  const hn::ScalableTag<float> d;
  const auto beta1 = hn::Set(d, static_cast<float>(options.beta1));
  const auto beta2 = hn::Set(d, static_cast<float>(options.beta2));
  const auto rest1 = hn::Set(d, static_cast<float>(1 - options.beta1));
  const auto rest2 = hn::Set(d, static_cast<float>(1 - options.beta2));
  const auto eps = hn::Set(d, static_cast<float>(options.eps));
  const auto step = hn::Set(d, rate), scale = hn::Set(d, root_scale);
  const auto added = hn::Set(d, l2), shrink = hn::Set(d, kept);

  const auto moments = [&](auto gradient, auto weight, auto& m, auto& v) HWY_ATTR {
    const auto g = hn::MulAdd(added, weight, gradient);
    m = hn::MulAdd(beta1, m, hn::Mul(rest1, g));
    v = hn::MulAdd(beta2, v, hn::Mul(rest2, hn::Mul(g, g)));
  };
  const auto move = [&](auto m, auto v, auto& weight) HWY_ATTR {
    const auto root = hn::MulAdd(hn::Sqrt(v), scale, eps);
    weight = hn::NegMulAdd(step, hn::Div(m, root), hn::Mul(weight, shrink));
  };
  if (options.amsgrad) {
    UpdateLanes<3>(range, [&](auto gradient, auto& weight, auto& m, auto& v, auto& v_max) HWY_ATTR {
      moments(gradient, weight, m, v);
      v_max = hn::Max(v_max, v);
      move(m, v_max, weight);
    });
  } else {
    UpdateLanes<2>(range, [&](auto gradient, auto& weight, auto& m, auto& v) HWY_ATTR {
      moments(gradient, weight, m, v);
      move(m, v, weight);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace {

HWY_EXPORT(AdamLanes);

class Adam : public UpdateRule {
 public:
  Adam(const AdamOptions& options, bool decoupled) : options_(options), decoupled_(decoupled) {}

  std::vector<StateSpec> States() const override {
    if (options_.amsgrad) return {{"m"}, {"v"}, {"v_max"}};
    return {{"m"}, {"v"}};
  }

  absl::Status Update(absl::Span<const UpdateView> views, const StepFacts& step) const override {
    ARMATURE_RETURN_IF_ERROR(CheckUpdate(views, options_.amsgrad ? 3 : 2, step),
                             decoupled_ ? "AdamW" : "Adam");
    const double count = static_cast<double>(step.count);
    const double rate = step.learning_rate / (1 - std::pow(options_.beta1, count));
    const double root_scale = 1 / std::sqrt(1 - std::pow(options_.beta2, count));
    ForEachRange(views, step, [&](const ParameterFacts& facts, const UpdateRange& range) {
      const double decay = facts.decay ? options_.weight_decay : 0;
      const double l2 = decoupled_ ? 0 : decay;
      const double kept = decoupled_ ? 1 - step.learning_rate * decay : 1;
      HWY_DYNAMIC_DISPATCH(AdamLanes)
      (range, options_, static_cast<float>(rate), static_cast<float>(root_scale), static_cast<float>(l2),
       static_cast<float>(kept));
    });
    return absl::OkStatus();
  }

 private:
  const AdamOptions options_;
  const bool decoupled_;
};

absl::Status Check(const AdamOptions& options) {
  ARMATURE_RETURN_IF_ERROR(CheckFraction("beta1", options.beta1));
  ARMATURE_RETURN_IF_ERROR(CheckFraction("beta2", options.beta2));
  ARMATURE_RETURN_IF_ERROR(CheckPositive("eps", options.eps));
  return CheckNotNegative("weight_decay", options.weight_decay);
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateRule>> MakeAdam(const AdamOptions& options) {
  ARMATURE_RETURN_IF_ERROR(Check(options), "Adam");
  return std::make_unique<Adam>(options, /*decoupled=*/false);
}

absl::StatusOr<std::unique_ptr<UpdateRule>> MakeAdamW(const AdamWOptions& options) {
  AdamOptions same;
  same.beta1 = options.beta1;
  same.beta2 = options.beta2;
  same.eps = options.eps;
  same.weight_decay = options.weight_decay;
  same.amsgrad = options.amsgrad;
  ARMATURE_RETURN_IF_ERROR(Check(same), "AdamW");
  return std::make_unique<Adam>(same, /*decoupled=*/true);
}

}  // namespace armature
#endif  // HWY_ONCE
