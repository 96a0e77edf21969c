#include "armature/optim/rmsprop.h"

#include "armature/base/status_macros.h"
#include "armature/optim/option_checks.h"
#include "armature/optim/update_ranges.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/rmsprop.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/optim/lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace HWY_NAMESPACE {

void RmsPropLanes(const UpdateRange& range, const RmsPropOptions& options, float rate, float decay) {
  const hn::ScalableTag<float> d;
  const auto alpha = hn::Set(d, static_cast<float>(options.alpha));
  const auto rest = hn::Set(d, static_cast<float>(1 - options.alpha));
  const auto eps = hn::Set(d, static_cast<float>(options.eps));
  const auto kept = hn::Set(d, static_cast<float>(options.momentum));
  const auto step = hn::Set(d, rate), l2 = hn::Set(d, decay);

  const auto plain = [&](auto g, auto& square) HWY_ATTR {
    square = hn::MulAdd(alpha, square, hn::Mul(rest, hn::Mul(g, g)));
    return hn::Div(g, hn::Add(hn::Sqrt(square), eps));
  };
  // Rounding may leave a variance a little below 0.
  const auto centred = [&](auto g, auto& square, auto& mean) HWY_ATTR {
    square = hn::MulAdd(alpha, square, hn::Mul(rest, hn::Mul(g, g)));
    mean = hn::MulAdd(alpha, mean, hn::Mul(rest, g));
    const auto variance = hn::Max(hn::NegMulAdd(mean, mean, square), hn::Zero(d));
    return hn::Div(g, hn::Add(hn::Sqrt(variance), eps));
  };
  if (options.centred && options.momentum != 0) {
    UpdateLanes<3>(
        range, [&](auto gradient, auto& weight, auto& square, auto& mean, auto& momentum) HWY_ATTR {
          momentum = hn::MulAdd(kept, momentum, centred(hn::MulAdd(l2, weight, gradient), square, mean));
          weight = hn::NegMulAdd(step, momentum, weight);
        });
  } else if (options.centred) {
    UpdateLanes<2>(range, [&](auto gradient, auto& weight, auto& square, auto& mean) HWY_ATTR {
      weight = hn::NegMulAdd(step, centred(hn::MulAdd(l2, weight, gradient), square, mean), weight);
    });
  } else if (options.momentum != 0) {
    UpdateLanes<2>(range, [&](auto gradient, auto& weight, auto& square, auto& momentum) HWY_ATTR {
      momentum = hn::MulAdd(kept, momentum, plain(hn::MulAdd(l2, weight, gradient), square));
      weight = hn::NegMulAdd(step, momentum, weight);
    });
  } else {
    UpdateLanes<1>(range, [&](auto gradient, auto& weight, auto& square) HWY_ATTR {
      weight = hn::NegMulAdd(step, plain(hn::MulAdd(l2, weight, gradient), square), weight);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace {

HWY_EXPORT(RmsPropLanes);

class RmsProp : public UpdateRule {
 public:
  explicit RmsProp(const RmsPropOptions& options) : options_(options) {}

  std::vector<StateSpec> States() const override {
    std::vector<StateSpec> states = {{"square"}};
    if (options_.centred) states.push_back({"mean"});
    if (options_.momentum != 0) states.push_back({"momentum"});
    return states;
  }

  absl::Status Update(absl::Span<const UpdateView> views, const StepFacts& step) const override {
    const int num_states = 1 + (options_.centred ? 1 : 0) + (options_.momentum != 0 ? 1 : 0);
    ARMATURE_RETURN_IF_ERROR(CheckUpdate(views, num_states, step), "RMSProp");
    ForEachRange(views, step, [&](const ParameterFacts& facts, const UpdateRange& range) {
      const float decay = facts.decay ? static_cast<float>(options_.weight_decay) : 0;
      HWY_DYNAMIC_DISPATCH(RmsPropLanes)(range, options_, static_cast<float>(step.learning_rate), decay);
    });
    return absl::OkStatus();
  }

 private:
  const RmsPropOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateRule>> MakeRmsProp(const RmsPropOptions& options) {
  ARMATURE_RETURN_IF_ERROR(CheckFraction("alpha", options.alpha), "RMSProp");
  ARMATURE_RETURN_IF_ERROR(CheckPositive("eps", options.eps), "RMSProp");
  ARMATURE_RETURN_IF_ERROR(CheckFraction("momentum", options.momentum), "RMSProp");
  ARMATURE_RETURN_IF_ERROR(CheckNotNegative("weight_decay", options.weight_decay), "RMSProp");
  return std::make_unique<RmsProp>(options);
}

}  // namespace armature
#endif  // HWY_ONCE
