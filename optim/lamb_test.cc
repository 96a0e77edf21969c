#include "armature/optim/lamb.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/optim/testing/highway_targets.h"
#include "armature/optim/testing/trained_parameter.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

StepFacts Step() {
  StepFacts step;
  step.learning_rate = 0.01;
  return step;
}

std::unique_ptr<UpdateRule> Lamb(double weight_decay) {
  LambOptions options;
  options.weight_decay = weight_decay;
  absl::StatusOr<std::unique_ptr<UpdateRule>> rule = MakeLamb(options);
  EXPECT_THAT(rule, IsOk());
  return *std::move(rule);
}

TEST(Lamb, RatioIsOneWhereTheWeightsAreZero) {
  const auto rule = Lamb(0);
  TrainedParameter trained({0, 0}, *rule);
  ASSERT_THAT(trained.Update(*rule, {3, 4}, Step()), IsOk());
  EXPECT_NEAR(trained.weight[0], -0.0099999967, 1e-9);
  EXPECT_NEAR(trained.weight[1], -0.0099999975, 1e-9);
}

TEST(Lamb, RatioIsOneWhereTheDirectionIsZero) {
  const auto rule = Lamb(0);
  TrainedParameter trained({1, 2}, *rule);
  ASSERT_THAT(trained.Update(*rule, {0, 0}, Step()), IsOk());
  EXPECT_EQ(trained.weight, std::vector<float>({1, 2}));
}

TEST(Lamb, ScalesTheStepToTheWeights) {
  // The ratio is 3.5511076857.
  const auto rule = Lamb(0.01);
  TrainedParameter trained({3, 4}, *rule);
  ASSERT_THAT(trained.Update(*rule, {1, -1}, Step()), IsOk());
  EXPECT_NEAR(trained.weight[0], 2.9634236263, 3e-7);
  EXPECT_NEAR(trained.weight[1], 4.0340905983, 3e-7);
}

std::vector<float> Numbers(int64_t count, double frequency) {
  std::vector<float> x(count);
  for (int64_t i = 0; i < count; ++i)
    x[i] = static_cast<float>(std::sin(frequency * static_cast<double>(i + 1)));
  return x;
}

TEST(Lamb, GivesTheValuesOfTheScalarLoopOnEveryTarget) {
  const auto rule = Lamb(0.1);
  ForEachHighwayTarget([&] {
    for (int64_t count : {1, 3, 17, 513, 40001}) {
      TrainedParameter trained(Numbers(count, 0.3), *rule);
      std::vector<double> w(trained.weight.begin(), trained.weight.end()), m(count), v(count), r(count);
      for (int t = 1; t <= 3; ++t) {
        const std::vector<float> gradient = Numbers(count, 0.7 * t);
        StepFacts step = Step();
        step.count = t;
        ASSERT_THAT(trained.Update(*rule, gradient, step), IsOk());
        double weights = 0, directions = 0;
        for (int64_t i = 0; i < count; ++i) {
          const double g = gradient[i];
          m[i] = 0.9 * m[i] + 0.1 * g;
          v[i] = 0.999 * v[i] + 0.001 * g * g;
          r[i] = m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-6) +
                 0.1 * w[i];
          weights += w[i] * w[i];
          directions += r[i] * r[i];
        }
        for (int64_t i = 0; i < count; ++i) {
          w[i] -= 0.01 * std::sqrt(weights / directions) * r[i];
          ASSERT_NEAR(trained.weight[i], w[i], 1e-6) << "weight " << i << " of " << count << ", update " << t;
        }
      }
    }
  });
}

// Two ranks hold the halves of parameter 1, and the first all of parameter 0: the weights are those of one
// rank.
TEST(Lamb, TakesNormsOverShardsOfManyRanks) {
  const auto rule = Lamb(0.1);
  const std::vector<float> w0 = Numbers(100, 0.3), g0 = Numbers(100, 0.9), w1 = Numbers(999, 0.4),
                           g1 = Numbers(999, 0.8);
  TrainedParameter whole0(w0, *rule), whole1(w1, *rule);
  ASSERT_THAT(whole0.Update(*rule, g0, Step()), IsOk());
  ASSERT_THAT(whole1.Update(*rule, g1, Step()), IsOk());

  const auto views_of = [](TrainedParameter& p, const std::vector<float>& gradient, int64_t begin,
                           int64_t end, std::vector<absl::Span<float>>& states) {
    for (std::vector<float>& state : p.states)
      states.push_back(absl::MakeSpan(state).subspan(begin, end - begin));
    return UpdateView{absl::MakeSpan(p.weight).subspan(begin, end - begin),
                      absl::MakeConstSpan(gradient).subspan(begin, end - begin), states, p.facts};
  };
  TrainedParameter p0(w0, *rule), p1(w1, *rule);
  p0.facts.parameter = 0;
  p1.facts.parameter = 1;
  std::vector<absl::Span<float>> states[3];
  const std::vector<UpdateView> first = {views_of(p0, g0, 0, 100, states[0]),
                                         views_of(p1, g1, 0, 400, states[1])};
  const std::vector<UpdateView> second = {views_of(p1, g1, 400, 999, states[2])};

  // The first rank's call waits, in its hook, for the sums of the second's.
  StepFacts step_first = Step(), step_second = Step();
  step_first.num_parameters = step_second.num_parameters = 2;
  std::vector<double> total;
  step_first.sum_over_shards = [&](absl::Span<double> sums) {
    total.assign(sums.begin(), sums.end());
    step_second.sum_over_shards = [&](absl::Span<double> other) {
      EXPECT_EQ(other.size(), 4u);
      for (size_t i = 0; i < other.size(); ++i) other[i] = total[i] += other[i];
      return absl::OkStatus();
    };
    const absl::Status status = rule->Update(second, step_second);
    std::copy(total.begin(), total.end(), sums.begin());
    return status;
  };
  ASSERT_THAT(rule->Update(first, step_first), IsOk());
  EXPECT_EQ(p0.weight, whole0.weight);
  EXPECT_EQ(p1.weight, whole1.weight);
}

TEST(Lamb, PassesOnTheErrorOfThePeersAndMovesNoWeight) {
  const auto rule = Lamb(0);
  TrainedParameter trained({3, 4}, *rule);
  StepFacts step = Step();
  step.num_parameters = 1;
  step.sum_over_shards = [](absl::Span<double>) { return absl::UnavailableError("rank 3 is gone"); };
  EXPECT_THAT(trained.Update(*rule, {1, 1}, step),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 3 is gone")));
  EXPECT_EQ(trained.weight, std::vector<float>({3, 4}));
}

TEST(Lamb, RefusesParametersOutOfRange) {
  const auto rule = Lamb(0);
  TrainedParameter trained({3, 4}, *rule);
  trained.facts.parameter = -1;
  EXPECT_THAT(trained.Update(*rule, {1, 1}, Step()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parameter -1")));
  trained.facts.parameter = 2;
  StepFacts step = Step();
  step.num_parameters = 2;
  step.sum_over_shards = [](absl::Span<double>) { return absl::OkStatus(); };
  EXPECT_THAT(trained.Update(*rule, {1, 1}, step),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parameter 2 is not one of 2")));
}

}  // namespace
}  // namespace armature
