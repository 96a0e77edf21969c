#include "armature/optim/adam.h"

#include <cstdint>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/optim/testing/trained_parameter.h"

namespace armature {
namespace {

StepFacts Step(int64_t count) {
  StepFacts step;
  step.count = count;
  step.learning_rate = 0.1;
  return step;
}

TEST(Adam, AddsEpsToTheCorrectedRoot) {
  AdamOptions options;
  options.eps = 1e-3;
  ASSERT_OK_AND_ASSIGN(const auto rule, MakeAdam(options));
  TrainedParameter trained({1}, *rule);
  std::vector<float> weights;
  for (int t = 1; t <= 3; ++t) {
    ASSERT_THAT(trained.Update(*rule, {1e-3f}, Step(t)), IsOk());
    weights.push_back(trained.weight[0]);
  }
  // An uncorrected root would give 0.99693 after the first.
  EXPECT_NEAR(weights[0], 0.95, 1e-6);
  EXPECT_NEAR(weights[2], 0.85, 1e-6);
}

TEST(AdamW, DecaysTheWeightAndNotTheGradient) {
  AdamWOptions options;
  options.weight_decay = 0.1;
  ASSERT_OK_AND_ASSIGN(const auto rule, MakeAdamW(options));
  TrainedParameter trained({2}, *rule);
  const std::vector<float> gradients = {0.5, -1, 0.25};
  std::vector<float> weights;
  for (int t = 1; t <= 3; ++t) {
    ASSERT_THAT(trained.Update(*rule, {gradients[t - 1]}, Step(t)), IsOk());
    weights.push_back(trained.weight[0]);
  }
  // Decay inside the gradient would give 1.900000001, decay after the step 1.881000002.
  EXPECT_NEAR(weights[0], 1.880000002, 5e-7);
  EXPECT_NEAR(weights[2], 1.892501316777, 5e-7);
}

TEST(Adam, GoesOnFromSavedStatesAndCount) {
  ASSERT_OK_AND_ASSIGN(const auto rule, MakeAdam(AdamOptions()));
  TrainedParameter before({0}, *rule);
  for (int t = 1; t <= 10; ++t) ASSERT_THAT(before.Update(*rule, {1}, Step(t)), IsOk());

  ASSERT_OK_AND_ASSIGN(const auto rule_after, MakeAdam(AdamOptions()));
  TrainedParameter after(before.weight, *rule_after);
  after.states = before.states;
  ASSERT_THAT(after.Update(*rule_after, {1}, Step(11)), IsOk());
  // A lost count would move it by -0.207, lost moments by -0.048.
  EXPECT_NEAR(after.weight[0] - before.weight[0], -0.099999999, 1e-6);

  ASSERT_THAT(before.Update(*rule, {1}, Step(11)), IsOk());
  EXPECT_EQ(after.weight, before.weight);
  EXPECT_EQ(after.states, before.states);
}

TEST(Adam, NamesItsStatesAsThePaper) {
  AdamWOptions options;
  options.amsgrad = true;
  ASSERT_OK_AND_ASSIGN(const auto rule, MakeAdamW(options));
  std::vector<std::string> names;
  for (const StateSpec& state : rule->States()) names.push_back(state.name);
  EXPECT_EQ(names, std::vector<std::string>({"m", "v", "v_max"}));
}

}  // namespace
}  // namespace armature
