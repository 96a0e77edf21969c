#include "armature/optim/lion.h"

#include "armature/base/status_macros.h"
#include "armature/optim/option_checks.h"
#include "armature/optim/update_ranges.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/lion.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/optim/lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace HWY_NAMESPACE {

void LionLanes(const UpdateRange& range, const LionOptions& options, float rate, float kept) {
  const hn::ScalableTag<float> d;
  const auto beta1 = hn::Set(d, static_cast<float>(options.beta1));
  const auto beta2 = hn::Set(d, static_cast<float>(options.beta2));
  const auto rest1 = hn::Set(d, static_cast<float>(1 - options.beta1));
  const auto rest2 = hn::Set(d, static_cast<float>(1 - options.beta2));
  const auto step = hn::Set(d, rate), shrink = hn::Set(d, kept);
  const auto zero = hn::Zero(d);
  UpdateLanes<1>(range, [&](auto gradient, auto& weight, auto& m) HWY_ATTR {
    const auto blend = hn::MulAdd(beta1, m, hn::Mul(rest1, gradient));
    // What is neither above nor below 0 is 0 or NaN, and stays it.
    const auto down = hn::IfThenElse(hn::Lt(blend, zero), hn::Neg(step), blend);
    const auto move = hn::IfThenElse(hn::Gt(blend, zero), step, down);
    weight = hn::Sub(hn::Mul(weight, shrink), move);
    m = hn::MulAdd(beta2, m, hn::Mul(rest2, gradient));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace {

HWY_EXPORT(LionLanes);

class Lion : public UpdateRule {
 public:
  explicit Lion(const LionOptions& options) : options_(options) {}

  std::vector<StateSpec> States() const override { return {{"m"}}; }

  absl::Status Update(absl::Span<const UpdateView> views, const StepFacts& step) const override {
    ARMATURE_RETURN_IF_ERROR(CheckUpdate(views, 1, step), "Lion");
    ForEachRange(views, step, [&](const ParameterFacts& facts, const UpdateRange& range) {
      const double kept = 1 - step.learning_rate * (facts.decay ? options_.weight_decay : 0);
      HWY_DYNAMIC_DISPATCH(LionLanes)
      (range, options_, static_cast<float>(step.learning_rate), static_cast<float>(kept));
    });
    return absl::OkStatus();
  }

 private:
  const LionOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateRule>> MakeLion(const LionOptions& options) {
  ARMATURE_RETURN_IF_ERROR(CheckFraction("beta1", options.beta1), "Lion");
  ARMATURE_RETURN_IF_ERROR(CheckFraction("beta2", options.beta2), "Lion");
  ARMATURE_RETURN_IF_ERROR(CheckNotNegative("weight_decay", options.weight_decay), "Lion");
  return std::make_unique<Lion>(options);
}

}  // namespace armature
#endif  // HWY_ONCE
