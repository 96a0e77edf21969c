#include "armature/optim/sgd.h"

#include "armature/base/status_macros.h"
#include "armature/optim/option_checks.h"
#include "armature/optim/update_ranges.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/sgd.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/optim/lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace HWY_NAMESPACE {

void SgdLanes(const UpdateRange& range, float rate, float decay) {
  const hn::ScalableTag<float> d;
  const auto step = hn::Set(d, -rate);
  const auto l2 = hn::Set(d, decay);
  UpdateLanes<0>(range, [&](auto gradient, auto& weight) HWY_ATTR {
    weight = hn::MulAdd(step, hn::MulAdd(l2, weight, gradient), weight);
  });
}

// share is that of the gradient in the momentum.
void SgdMomentumLanes(const UpdateRange& range, const SgdOptions& options, float rate, float decay,
                      float share) {
  const hn::ScalableTag<float> d;
  const auto step = hn::Set(d, -rate);
  const auto l2 = hn::Set(d, decay);
  const auto kept = hn::Set(d, static_cast<float>(options.momentum));
  const auto added = hn::Set(d, share);
  const auto plain = [&](auto gradient, auto& weight, auto& momentum) HWY_ATTR {
    const auto g = hn::MulAdd(l2, weight, gradient);
    momentum = hn::MulAdd(kept, momentum, hn::Mul(added, g));
    weight = hn::MulAdd(step, momentum, weight);
  };
  const auto nesterov = [&](auto gradient, auto& weight, auto& momentum) HWY_ATTR {
    const auto g = hn::MulAdd(l2, weight, gradient);
    momentum = hn::MulAdd(kept, momentum, hn::Mul(added, g));
    weight = hn::MulAdd(step, hn::MulAdd(kept, momentum, g), weight);
  };
  if (options.nesterov) {
    UpdateLanes<1>(range, nesterov);
  } else {
    UpdateLanes<1>(range, plain);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace {

HWY_EXPORT(SgdLanes);
HWY_EXPORT(SgdMomentumLanes);

class Sgd : public UpdateRule {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options) {}

  std::vector<StateSpec> States() const override {
    if (options_.momentum == 0) return {};
    return {{"momentum"}};
  }

  absl::Status Update(absl::Span<const UpdateView> views, const StepFacts& step) const override {
    const bool has_momentum = options_.momentum != 0;
    ARMATURE_RETURN_IF_ERROR(CheckUpdate(views, has_momentum ? 1 : 0, step), "SGD");
    const float rate = static_cast<float>(step.learning_rate);
    const float share = step.count == 1 ? 1 : static_cast<float>(1 - options_.dampening);
    ForEachRange(views, step, [&](const ParameterFacts& facts, const UpdateRange& range) {
      const float decay = facts.decay ? static_cast<float>(options_.weight_decay) : 0;
      if (has_momentum) {
        HWY_DYNAMIC_DISPATCH(SgdMomentumLanes)(range, options_, rate, decay, share);
      } else {
        HWY_DYNAMIC_DISPATCH(SgdLanes)(range, rate, decay);
      }
    });
    return absl::OkStatus();
  }

 private:
  const SgdOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateRule>> MakeSgd(const SgdOptions& options) {
  ARMATURE_RETURN_IF_ERROR(CheckFraction("momentum", options.momentum), "SGD");
  ARMATURE_RETURN_IF_ERROR(CheckFraction("dampening", options.dampening), "SGD");
  ARMATURE_RETURN_IF_ERROR(CheckNotNegative("weight_decay", options.weight_decay), "SGD");
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    return absl::InvalidArgumentError("SGD: nesterov needs a momentum above 0 and a dampening of 0");
  }
  return std::make_unique<Sgd>(options);
}

}  // namespace armature
#endif  // HWY_ONCE
