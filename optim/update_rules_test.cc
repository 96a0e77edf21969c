// What every rule promises: the values of a scalar f64 loop on each instruction set, the same bits for every
// cut and team, decay where the facts say so, scaled gradients, and errors that name what is wrong.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/base/thread_team.h"
#include "armature/optim/adagrad.h"
#include "armature/optim/adam.h"
#include "armature/optim/lamb.h"
#include "armature/optim/lion.h"
#include "armature/optim/rmsprop.h"
#include "armature/optim/sgd.h"
#include "armature/optim/testing/highway_targets.h"
#include "armature/optim/testing/trained_parameter.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

constexpr double kRate = 0.01, kDecay = 0.1, kEps = 1e-6;

// One weight in f64: the states in `s`, update number `t`.
using ScalarUpdate = std::function<void(double g, double decay, int t, double& w, double* s)>;

struct RuleCase {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<UpdateRule>>()> make;
  ScalarUpdate scalar;  // none for LAMB, which is no function of one weight
  friend std::ostream& operator<<(std::ostream& out, const RuleCase& rule) { return out << rule.name; }
};

RuleCase SgdCase(const std::string& name, double momentum, double dampening, bool nesterov) {
  SgdOptions options;
  options.momentum = momentum;
  options.dampening = dampening;
  options.nesterov = nesterov;
  options.weight_decay = kDecay;
  return {name, [=] { return MakeSgd(options); },
          [=](double g, double decay, int t, double& w, double* s) {
            g += decay * w;
            s[0] = t == 1 ? g : momentum * s[0] + (1 - dampening) * g;
            w -= kRate * (nesterov ? g + momentum * s[0] : s[0]);
          }};
}

RuleCase AdamCase(const std::string& name, bool decoupled, bool amsgrad) {
  AdamOptions l2;
  l2.eps = kEps;
  l2.weight_decay = kDecay;
  l2.amsgrad = amsgrad;
  AdamWOptions options;
  options.eps = kEps;
  options.weight_decay = kDecay;
  options.amsgrad = amsgrad;
  return {name, [=] { return decoupled ? MakeAdamW(options) : MakeAdam(l2); },
          [=](double g, double decay, int t, double& w, double* s) {
            if (decoupled) {
              w -= kRate * decay * w;
            } else {
              g += decay * w;
            }
            s[0] = 0.9 * s[0] + 0.1 * g;
            s[1] = 0.999 * s[1] + 0.001 * g * g;
            s[2] = std::max(s[2], s[1]);
            const double v = (amsgrad ? s[2] : s[1]) / (1 - std::pow(0.999, t));
            w -= kRate * (s[0] / (1 - std::pow(0.9, t))) / (std::sqrt(v) + kEps);
          }};
}

RuleCase RmsPropCase(const std::string& name, bool centred, double momentum) {
  RmsPropOptions options;
  options.eps = kEps;
  options.alpha = 0.9;
  options.centred = centred;
  options.momentum = momentum;
  options.weight_decay = kDecay;
  return {name, [=] { return MakeRmsProp(options); },
          [=](double g, double decay, int, double& w, double* s) {
            g += decay * w;
            s[0] = 0.9 * s[0] + 0.1 * g * g;
            s[1] = 0.9 * s[1] + 0.1 * g;
            const double variance = centred ? s[0] - s[1] * s[1] : s[0];
            s[2] = momentum * s[2] + g / (std::sqrt(variance) + kEps);
            w -= kRate * s[2];
          }};
}

RuleCase AdagradCase() {
  AdagradOptions options;
  options.eps = kEps;
  options.weight_decay = kDecay;
  return {"AdaGrad", [=] { return MakeAdagrad(options); },
          [](double g, double decay, int, double& w, double* s) {
            g += decay * w;
            s[0] += g * g;
            w -= kRate * g / (std::sqrt(s[0]) + kEps);
          }};
}

RuleCase LionCase() {
  LionOptions options;
  options.weight_decay = kDecay;
  return {"Lion", [=] { return MakeLion(options); },
          [](double g, double decay, int, double& w, double* s) {
            const double blend = 0.9 * s[0] + 0.1 * g;
            w -= kRate * decay * w;
            w -= kRate * static_cast<double>((blend > 0) - (blend < 0));
            s[0] = 0.99 * s[0] + 0.01 * g;
          }};
}

RuleCase LambCase() {
  LambOptions options;
  options.weight_decay = kDecay;
  return {"LAMB", [=] { return MakeLamb(options); }, nullptr};
}

std::vector<RuleCase> AllRules() {
  return {SgdCase("SGD", 0, 0, false),
          SgdCase("SGD with momentum", 0.9, 0.5, false),
          SgdCase("SGD with nesterov", 0.9, 0, true),
          AdamCase("Adam", false, false),
          AdamCase("Adam with AMSGrad", false, true),
          AdamCase("AdamW", true, false),
          AdamCase("AdamW with AMSGrad", true, true),
          RmsPropCase("RMSProp", false, 0),
          RmsPropCase("RMSProp with momentum", false, 0.9),
          RmsPropCase("RMSProp centred", true, 0),
          RmsPropCase("RMSProp centred with momentum", true, 0.9),
          AdagradCase(),
          LionCase(),
          LambCase()};
}

// Numbers in (-1, 1) that differ by element and by update, none of them near 0.
std::vector<float> Numbers(int64_t count, int salt) {
  std::vector<float> x(count);
  for (int64_t i = 0; i < count; ++i) {
    const double value = std::sin(static_cast<double>(i * 7 + salt * 13 + 1));
    x[i] = static_cast<float>(value + (value < 0 ? -0.05 : 0.05));
  }
  return x;
}

StepFacts Step(int t) {
  StepFacts step;
  step.count = t;
  step.learning_rate = kRate;
  return step;
}

class EachRule : public ::testing::TestWithParam<RuleCase> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<UpdateRule>> made = GetParam().make();
    ASSERT_THAT(made, IsOk());
    rule_ = *std::move(made);
  }

  std::unique_ptr<UpdateRule> rule_;
};

TEST_P(EachRule, GivesTheValuesOfTheScalarLoopOnEveryTarget) {
  if (GetParam().scalar == nullptr) GTEST_SKIP() << "has its own tests";
  for (bool decay : {true, false}) {
    ForEachHighwayTarget([&] {
      for (int64_t count : {1, 2, 3, 7, 8, 15, 16, 17, 33, 1001}) {
        TrainedParameter trained(Numbers(count, 0), *rule_);
        trained.facts.decay = decay;
        std::vector<double> w(trained.weight.begin(), trained.weight.end());
        std::vector<double> states(3 * count);
        for (int t = 1; t <= 5; ++t) {
          const std::vector<float> gradient = Numbers(count, t);
          ASSERT_THAT(trained.Update(*rule_, gradient, Step(t)), IsOk());
          for (int64_t i = 0; i < count; ++i) {
            GetParam().scalar(gradient[i], decay ? kDecay : 0, t, w[i], &states[3 * i]);
            ASSERT_NEAR(trained.weight[i], w[i], 1e-6)
                << "weight " << i << " of " << count << ", update " << t;
          }
        }
      }
    });
  }
}

TEST_P(EachRule, GivesTheSameBitsForEveryCutAndTeam) {
  const int64_t count = 100003;
  TrainedParameter whole(Numbers(count, 0), *rule_);
  for (int t = 1; t <= 2; ++t) ASSERT_THAT(whole.Update(*rule_, Numbers(count, t), Step(t)), IsOk());
  for (int size : {1, 2, 5}) {
    ThreadTeam team(size);
    for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{}, {1, 2, 2, 9, 777, 50000}}) {
      TrainedParameter cut(Numbers(count, 0), *rule_);
      for (int t = 1; t <= 2; ++t) {
        StepFacts step = Step(t);
        step.threads = &team;
        ASSERT_THAT(cut.Update(*rule_, Numbers(count, t), step, cuts), IsOk());
      }
      EXPECT_TRUE(cut.weight == whole.weight && cut.states == whole.states)
          << "team of " << size << ", " << cuts.size() << " cuts";
    }
  }
}

TEST_P(EachRule, MultipliesGradientsByTheScale) {
  TrainedParameter plain(Numbers(100, 0), *rule_), scaled(Numbers(100, 0), *rule_);
  const std::vector<float> gradient = Numbers(100, 1);
  std::vector<float> large = gradient;
  for (float& g : large) g *= 65536;
  StepFacts step = Step(1);
  ASSERT_THAT(plain.Update(*rule_, gradient, step), IsOk());
  step.gradient_scale = 1.0 / 65536;
  ASSERT_THAT(scaled.Update(*rule_, large, step), IsOk());
  EXPECT_EQ(scaled.weight, plain.weight);
  EXPECT_EQ(scaled.states, plain.states);
}

TEST_P(EachRule, LetsNanThrough) {
  TrainedParameter trained(Numbers(20, 0), *rule_);
  std::vector<float> gradient = Numbers(20, 1);
  gradient[18] = std::nanf("");
  ASSERT_THAT(trained.Update(*rule_, gradient, Step(1)), IsOk());
  EXPECT_TRUE(std::isnan(trained.weight[18]));
}

TEST_P(EachRule, AcceptsNothing) {
  EXPECT_THAT(rule_->Update({}, Step(1)), IsOk());
  TrainedParameter empty({}, *rule_);
  EXPECT_THAT(empty.Update(*rule_, {}, Step(1)), IsOk());
}

TEST_P(EachRule, RefusesSpansThatDoNotFitAndTouchesNothing) {
  std::vector<float> weight = Numbers(4, 0);
  const std::vector<float> before = weight, gradient = Numbers(5, 1);
  std::vector<std::vector<float>> states(rule_->States().size(), std::vector<float>(4));
  std::vector<absl::Span<float>> spans;
  for (std::vector<float>& state : states) spans.push_back(absl::MakeSpan(state));
  const auto refused = [&](const UpdateView& view, const StepFacts& step, const std::string& message) {
    EXPECT_THAT(rule_->Update({view}, step),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
    EXPECT_EQ(weight, before);
  };
  const UpdateView good{absl::MakeSpan(weight), absl::MakeConstSpan(gradient).first(4), spans, {}};
  UpdateView longer = good;
  longer.gradient = gradient;
  refused(longer, Step(1), "another number of gradients (5)");
  std::vector<absl::Span<float>> more = spans;
  more.push_back(absl::MakeSpan(weight));
  UpdateView wider = good;
  wider.state = more;
  refused(wider, Step(1), "states");
  refused(good, Step(0), "count from 1");
  StepFacts step = Step(1);
  step.learning_rate = std::nan("");
  refused(good, step, "learning rate");
  step = Step(1);
  step.gradient_scale = INFINITY;
  refused(good, step, "gradient scale");
}

INSTANTIATE_TEST_SUITE_P(Rules, EachRule, ::testing::ValuesIn(AllRules()),
                         [](const ::testing::TestParamInfo<RuleCase>& info) {
                           std::string name;
                           for (char c : info.param.name) {
                             if (c != ' ') name.push_back(c);
                           }
                           return name;
                         });

template <typename Options>
void ExpectRefused(absl::StatusOr<std::unique_ptr<UpdateRule>> (*make)(const Options&),
                   double Options::*field, double value, const std::string& message) {
  Options options;
  options.*field = value;
  EXPECT_THAT(make(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
}

TEST(Options, ThatAreWrongAreNamed) {
  ExpectRefused(MakeSgd, &SgdOptions::momentum, 1, "SGD: momentum is 1, but must be in [0, 1)");
  ExpectRefused(MakeSgd, &SgdOptions::dampening, -0.5, "SGD: dampening is -0.5");
  ExpectRefused(MakeSgd, &SgdOptions::weight_decay, -1, "SGD: weight_decay is -1");
  ExpectRefused(MakeAdam, &AdamOptions::beta1, 1, "Adam: beta1 is 1");
  ExpectRefused(MakeAdamW, &AdamWOptions::beta2, std::nan(""), "AdamW: beta2 is nan");
  ExpectRefused(MakeAdamW, &AdamWOptions::eps, 1e-60, "AdamW: eps is 1e-60");
  ExpectRefused(MakeAdamW, &AdamWOptions::weight_decay, INFINITY, "AdamW: weight_decay is inf");
  ExpectRefused(MakeAdagrad, &AdagradOptions::eps, 0, "AdaGrad: eps is 0");
  ExpectRefused(MakeAdagrad, &AdagradOptions::weight_decay, -1, "AdaGrad: weight_decay is -1");
  ExpectRefused(MakeRmsProp, &RmsPropOptions::alpha, 2, "RMSProp: alpha is 2");
  ExpectRefused(MakeRmsProp, &RmsPropOptions::eps, -1, "RMSProp: eps is -1");
  ExpectRefused(MakeRmsProp, &RmsPropOptions::momentum, 1, "RMSProp: momentum is 1");
  ExpectRefused(MakeLamb, &LambOptions::beta1, -1, "LAMB: beta1 is -1");
  ExpectRefused(MakeLamb, &LambOptions::eps, 0, "LAMB: eps is 0");
  ExpectRefused(MakeLion, &LionOptions::beta2, 1, "Lion: beta2 is 1");
  SgdOptions nesterov;
  nesterov.nesterov = true;
  EXPECT_THAT(MakeSgd(nesterov), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SGD: nesterov")));
}

TEST(DecaysByDefault, GoesByRankAlone) {
  EXPECT_FALSE(DecaysByDefault(Shape()));
  EXPECT_FALSE(DecaysByDefault(Shape({8})));
  EXPECT_TRUE(DecaysByDefault(Shape({8, 1})));
}

}  // namespace
}  // namespace armature
