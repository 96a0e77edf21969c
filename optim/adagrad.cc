#include "armature/optim/adagrad.h"

#include "armature/base/status_macros.h"
#include "armature/optim/option_checks.h"
#include "armature/optim/update_ranges.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/adagrad.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/optim/lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace HWY_NAMESPACE {

void AdagradLanes(const UpdateRange& range, const AdagradOptions& options, float rate, float decay) {
  const hn::ScalableTag<float> d;
  const auto step = hn::Set(d, rate);
  const auto l2 = hn::Set(d, decay);
  const auto eps = hn::Set(d, static_cast<float>(options.eps));
  UpdateLanes<1>(range, [&](auto gradient, auto& weight, auto& sum) HWY_ATTR {
    const auto g = hn::MulAdd(l2, weight, gradient);
    sum = hn::MulAdd(g, g, sum);
    weight = hn::NegMulAdd(step, hn::Div(g, hn::Add(hn::Sqrt(sum), eps)), weight);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace {

HWY_EXPORT(AdagradLanes);

class Adagrad : public UpdateRule {
 public:
  explicit Adagrad(const AdagradOptions& options) : options_(options) {}

  std::vector<StateSpec> States() const override { return {{"sum"}}; }

  absl::Status Update(absl::Span<const UpdateView> views, const StepFacts& step) const override {
    ARMATURE_RETURN_IF_ERROR(CheckUpdate(views, 1, step), "AdaGrad");
    ForEachRange(views, step, [&](const ParameterFacts& facts, const UpdateRange& range) {
      const float decay = facts.decay ? static_cast<float>(options_.weight_decay) : 0;
      HWY_DYNAMIC_DISPATCH(AdagradLanes)(range, options_, static_cast<float>(step.learning_rate), decay);
    });
    return absl::OkStatus();
  }

 private:
  const AdagradOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateRule>> MakeAdagrad(const AdagradOptions& options) {
  ARMATURE_RETURN_IF_ERROR(CheckPositive("eps", options.eps), "AdaGrad");
  ARMATURE_RETURN_IF_ERROR(CheckNotNegative("weight_decay", options.weight_decay), "AdaGrad");
  return std::make_unique<Adagrad>(options);
}

}  // namespace armature
#endif  // HWY_ONCE
