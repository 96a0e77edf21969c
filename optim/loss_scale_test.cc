#include "armature/optim/loss_scale.h"

#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/optim/adam.h"
#include "armature/optim/schedule.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

TEST(LossScaler, SkippedUpdateMovesNothingAndTheScaleRecovers) {
  LossScalerOptions options;
  options.growth_interval = 2;
  ASSERT_OK_AND_ASSIGN(LossScaler scaler, LossScaler::Create(options));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<UpdateRule> adam, MakeAdam(AdamOptions()));
  ScheduleOptions schedule_options;
  schedule_options.warmup_updates = 10;
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, Schedule::Create(schedule_options));

  std::vector<float> weight = {1, 2}, m(2), v(2);
  absl::Span<float> states[] = {absl::MakeSpan(m), absl::MakeSpan(v)};
  std::vector<std::vector<float>> weights_after, m_after, v_after;
  std::vector<double> scale_after, rates;
  int64_t updates = 0;
  for (bool finite : {true, false, true, true}) {
    const std::vector<float> gradient(2, static_cast<float>(0.5 * scaler.scale()));
    StepFacts step;
    step.gradient_scale = 1 / scaler.scale();
    ASSERT_THAT(scaler.EndStep(finite), IsOk());
    if (finite) {
      step.count = ++updates;
      step.learning_rate = schedule.LearningRate(updates);
      rates.push_back(step.learning_rate);
      const UpdateView view{absl::MakeSpan(weight), gradient, states, {}};
      ASSERT_THAT(adam->Update({view}, step), IsOk());
    }
    weights_after.push_back(weight);
    m_after.push_back(m);
    v_after.push_back(v);
    scale_after.push_back(scaler.scale());
  }
  EXPECT_EQ(updates, 3);
  EXPECT_EQ(rates, std::vector<double>({1e-4, 2e-4, 1e-3 * 3 / 10}));
  EXPECT_EQ(scale_after, std::vector<double>({65536, 32768, 32768, 65536}));
  EXPECT_EQ(weights_after[0], weights_after[1]);
  EXPECT_EQ(m_after[0], m_after[1]);
  EXPECT_EQ(v_after[0], v_after[1]);
  EXPECT_NE(weights_after[1], weights_after[2]);
  EXPECT_EQ(m_after[0][0], static_cast<float>(1 - 0.9) * 0.5f);  // unscaled on the fly
}

TEST(LossScaler, OverflowAtTheFloorIsAnErrorAndNoLoop) {
  LossScalerOptions options;
  options.min_scale = 10000;
  ASSERT_OK_AND_ASSIGN(LossScaler scaler, LossScaler::Create(options));
  for (double scale : {32768, 16384, 10000}) {
    ASSERT_THAT(scaler.EndStep(false), IsOk());
    EXPECT_EQ(scaler.scale(), scale);
  }
  EXPECT_THAT(scaler.EndStep(false), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("10000")));
  EXPECT_EQ(scaler.scale(), 10000);
  EXPECT_THAT(scaler.EndStep(true), IsOk());
}

TEST(LossScaler, GrowsAfterGoodStepsInARowUpToItsMaximum) {
  LossScalerOptions options;
  options.growth_interval = 3;
  options.max_scale = 100000;
  ASSERT_OK_AND_ASSIGN(LossScaler scaler, LossScaler::Create(options));
  std::vector<double> scales;
  for (bool finite : {true, true, false, true, true, true, true, true, true}) {
    ASSERT_THAT(scaler.EndStep(finite), IsOk());
    scales.push_back(scaler.scale());
  }
  EXPECT_EQ(scales, std::vector<double>({65536, 65536, 32768, 32768, 32768, 65536, 65536, 65536, 100000}));
}

TEST(LossScaler, GoesOnFromASavedState) {
  LossScalerOptions options;
  options.growth_interval = 2;
  ASSERT_OK_AND_ASSIGN(LossScaler before, LossScaler::Create(options));
  ASSERT_THAT(before.EndStep(false), IsOk());
  ASSERT_THAT(before.EndStep(true), IsOk());
  ASSERT_OK_AND_ASSIGN(LossScaler after, LossScaler::Create(options));
  ASSERT_THAT(after.Restore(before.state()), IsOk());
  ASSERT_THAT(after.EndStep(true), IsOk());
  EXPECT_EQ(after.scale(), 65536);
  EXPECT_THAT(after.Restore({0, 0}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(after.Restore({1, -1}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(after.scale(), 65536);
}

TEST(LossScaler, NamesTheOptionThatIsWrong) {
  const auto fails = [](double LossScalerOptions::*field, double value, const std::string& name) {
    LossScalerOptions options;
    options.*field = value;
    EXPECT_THAT(LossScaler::Create(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
  };
  fails(&LossScalerOptions::min_scale, 0, "min_scale is 0");
  fails(&LossScalerOptions::initial_scale, 0.5, "initial_scale is 0.5");
  fails(&LossScalerOptions::max_scale, 0.5, "max_scale is 0.5");
  fails(&LossScalerOptions::growth, 0.5, "growth is 0.5");
  fails(&LossScalerOptions::backoff, 1, "backoff is 1");
  LossScalerOptions options;
  options.growth_interval = 0;
  EXPECT_THAT(LossScaler::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("growth_interval is 0")));
}

}  // namespace
}  // namespace armature
