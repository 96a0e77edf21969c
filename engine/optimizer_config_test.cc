#include "armature/engine/optimizer_config.h"

#include <cmath>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/optim/adagrad.h"
#include "armature/optim/adam.h"
#include "armature/optim/lamb.h"
#include "armature/optim/lion.h"
#include "armature/optim/rmsprop.h"
#include "armature/optim/sgd.h"
#include "google/protobuf/text_format.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Three updates of a matrix whose gradients change sign: every option of every rule shows in the result.
std::vector<float> Trained(const UpdateRule& rule) {
  std::vector<float> weight = {1, -2, 3, 0.5};
  std::vector<std::vector<float>> states(rule.States().size(), std::vector<float>(4));
  std::vector<absl::Span<float>> state;
  for (std::vector<float>& one : states) state.push_back(absl::MakeSpan(one));
  for (int k = 1; k <= 3; ++k) {
    const float sign = k == 2 ? -0.5f : 1.0f;
    const std::vector<float> gradient = {sign * 0.5f, sign * 1.5f, sign * -0.25f, 1e-4f};
    UpdateView view;
    view.weight = absl::MakeSpan(weight);
    view.gradient = gradient;
    view.state = state;
    view.facts.global_shape = Shape{2, 2};
    StepFacts facts;
    facts.count = k;
    facts.learning_rate = 0.1;
    EXPECT_THAT(rule.Update(absl::MakeConstSpan(&view, 1), facts), IsOk());
  }
  return weight;
}

void ExpectSameRule(const std::string& text, absl::StatusOr<std::unique_ptr<UpdateRule>> expected) {
  SCOPED_TRACE(text);
  ASSERT_THAT(expected, IsOk());
  ASSERT_OK_AND_ASSIGN(const auto rule, MakeUpdateRule(Parse<OptimizerConfig>(text)));
  ASSERT_EQ(rule->States().size(), (*expected)->States().size());
  EXPECT_EQ(Trained(*rule), Trained(**expected));
}

TEST(MakeUpdateRule, TheDefaultIsAdamWWithItsDefaults) {
  AdamWOptions options;
  options.beta1 = 0.9;
  options.beta2 = 0.999;
  options.eps = 1e-8;
  options.weight_decay = 0.01;
  ExpectSameRule("", MakeAdamW(options));
  ExpectSameRule("adamw {}", MakeAdamW(options));
}

TEST(MakeUpdateRule, EveryFieldReachesItsRule) {
  SgdOptions sgd;
  sgd.momentum = 0.8;
  sgd.weight_decay = 0.1;
  sgd.nesterov = true;
  ExpectSameRule("sgd { momentum: 0.8 weight_decay: 0.1 nesterov: true }", MakeSgd(sgd));
  sgd.nesterov = false;
  sgd.dampening = 0.3;
  ExpectSameRule("sgd { momentum: 0.8 weight_decay: 0.1 dampening: 0.3 }", MakeSgd(sgd));
  AdamOptions adam;
  adam.beta1 = 0.5;
  adam.beta2 = 0.7;
  adam.eps = 0.01;
  adam.weight_decay = 0.1;
  adam.amsgrad = true;
  ExpectSameRule("adam { beta1: 0.5 beta2: 0.7 eps: 0.01 weight_decay: 0.1 amsgrad: true }", MakeAdam(adam));
  AdamWOptions adamw;
  adamw.beta1 = 0.5;
  adamw.beta2 = 0.7;
  adamw.eps = 0.01;
  adamw.weight_decay = 0.1;
  adamw.amsgrad = true;
  ExpectSameRule("adamw { beta1: 0.5 beta2: 0.7 eps: 0.01 weight_decay: 0.1 amsgrad: true }",
                 MakeAdamW(adamw));
  AdagradOptions adagrad;
  adagrad.eps = 0.01;
  adagrad.weight_decay = 0.1;
  ExpectSameRule("adagrad { eps: 0.01 weight_decay: 0.1 }", MakeAdagrad(adagrad));
  RmsPropOptions rmsprop;
  rmsprop.alpha = 0.5;
  rmsprop.eps = 0.01;
  rmsprop.momentum = 0.8;
  rmsprop.weight_decay = 0.1;
  rmsprop.centred = true;
  ExpectSameRule("rmsprop { alpha: 0.5 eps: 0.01 momentum: 0.8 weight_decay: 0.1 centered: true }",
                 MakeRmsProp(rmsprop));
  LambOptions lamb;
  lamb.beta1 = 0.5;
  lamb.beta2 = 0.7;
  lamb.eps = 0.01;
  lamb.weight_decay = 0.1;
  ExpectSameRule("lamb { beta1: 0.5 beta2: 0.7 eps: 0.01 weight_decay: 0.1 }", MakeLamb(lamb));
  LionOptions lion;
  lion.beta1 = 0.5;
  lion.beta2 = 0.7;
  lion.weight_decay = 0.1;
  ExpectSameRule("lion { beta1: 0.5 beta2: 0.7 weight_decay: 0.1 }", MakeLion(lion));
}

TEST(MakeUpdateRule, WhatIsLeftOutHasTheDefaultOfItsComment) {
  ExpectSameRule(
      "adam {}",
      MakeUpdateRule(Parse<OptimizerConfig>("adam { beta1: 0.9 beta2: 0.999 eps: 1e-8 weight_decay: 0 }")));
  ExpectSameRule("adagrad {}", MakeUpdateRule(Parse<OptimizerConfig>("adagrad { eps: 1e-10 }")));
  ExpectSameRule("rmsprop {}", MakeUpdateRule(Parse<OptimizerConfig>("rmsprop { alpha: 0.99 eps: 1e-8 }")));
  ExpectSameRule("lamb {}", MakeUpdateRule(Parse<OptimizerConfig>(
                                "lamb { beta1: 0.9 beta2: 0.999 eps: 1e-6 weight_decay: 0.01 }")));
  ExpectSameRule(
      "lion {}",
      MakeUpdateRule(Parse<OptimizerConfig>("lion { beta1: 0.9 beta2: 0.99 weight_decay: 0.01 }")));
}

TEST(MakeUpdateRule, ZeroIsAValueAndNotADefault) {
  AdamWOptions options;
  options.weight_decay = 0;
  options.beta1 = 0;
  ExpectSameRule("adamw { weight_decay: 0 beta1: 0 }", MakeAdamW(options));
}

TEST(MakeUpdateRule, ABadOptionIsNamedWithItsRule) {
  EXPECT_THAT(MakeUpdateRule(Parse<OptimizerConfig>("adamw { beta2: 1.5 }")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("optimizer.adamw"), HasSubstr("beta2 is 1.5"))));
}

double Rate(const std::string& text, int64_t update) {
  const absl::StatusOr<Schedule> schedule = MakeSchedule(Parse<LearningRateConfig>(text));
  EXPECT_THAT(schedule, IsOk());
  return schedule.ok() ? schedule->LearningRate(update) : NAN;
}

TEST(MakeSchedule, EveryKindReachesItsSchedule) {
  EXPECT_DOUBLE_EQ(Rate("peak: 2", 1), 2);
  EXPECT_DOUBLE_EQ(Rate("peak: 2 warmup_steps: 4 constant {}", 1), 0.5);
  EXPECT_DOUBLE_EQ(Rate("peak: 2 warmup_steps: 4 constant {}", 100), 2);
  EXPECT_DOUBLE_EQ(Rate("peak: 2 warmup_steps: 1 total_steps: 11 min: 1 linear {}", 6), 1.5);
  EXPECT_DOUBLE_EQ(Rate("peak: 2 warmup_steps: 1 total_steps: 11 min: 1 cosine {}", 6), 1.5);
  EXPECT_DOUBLE_EQ(Rate("peak: 2 warmup_steps: 1 total_steps: 11 min: 1 cosine {}", 11), 1);
  EXPECT_DOUBLE_EQ(Rate("peak: 2 warmup_steps: 4 inverse_square_root {}", 16), 1);
  const std::string stable = "peak: 2 total_steps: 20 warmup_stable_decay { decay_steps: 10 }";
  EXPECT_DOUBLE_EQ(Rate(stable, 10), 2);
  EXPECT_DOUBLE_EQ(Rate(stable, 15), 1);
}

TEST(MakeSchedule, ABadFieldIsNamed) {
  EXPECT_THAT(
      MakeSchedule(Parse<LearningRateConfig>("peak: -1")),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("learning_rate"), HasSubstr("peak"))));
}

}  // namespace
}  // namespace armature
