#include "armature/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::HasSubstr;
using Decay = ScheduleOptions::Decay;

constexpr Decay kDecays[] = {Decay::kConstant, Decay::kLinear, Decay::kCosine, Decay::kInverseSquareRoot,
                             Decay::kWarmupStableDecay};

ScheduleOptions Options(Decay decay, int64_t warmup, int64_t total) {
  ScheduleOptions options;
  options.decay = decay;
  options.peak = 1;
  options.min = 0.1;
  options.warmup_updates = warmup;
  options.total_updates = total;
  options.decay_updates = std::max<int64_t>(total - warmup, 0) / 2;
  return options;
}

double Rate(const ScheduleOptions& options, int64_t k) {
  const absl::StatusOr<Schedule> schedule = Schedule::Create(options);
  EXPECT_THAT(schedule, IsOk());
  return schedule.ok() ? schedule->LearningRate(k) : -1;
}

// Of updates `from` to `to`, both included.
std::vector<double> Rates(const ScheduleOptions& options, int64_t from, int64_t to) {
  std::vector<double> rates;
  for (int64_t k = from; k <= to; ++k) rates.push_back(Rate(options, k));
  return rates;
}

TEST(Schedule, WarmsUpFromTheFirstUpdateUnderEveryDecay) {
  for (Decay decay : kDecays) {
    EXPECT_EQ(Rates(Options(decay, 4, 100), 1, 4), std::vector<double>({0.25, 0.5, 0.75, 1}));
  }
}

TEST(Schedule, WithoutWarmupStartsAtThePeak) {
  for (Decay decay : kDecays) {
    EXPECT_EQ(Rate(Options(decay, 0, 100), 1), 1);
    EXPECT_EQ(Rate(Options(decay, 1, 100), 1), 1);
  }
}

TEST(Schedule, DecayOfLengthZeroGivesNumbers) {
  for (Decay decay : kDecays) {
    for (int64_t length : {0, 1, 5}) {
      for (double rate : Rates(Options(decay, length, length), 1, 10)) {
        EXPECT_TRUE(std::isfinite(rate) && rate > 0) << rate;
      }
    }
  }
  EXPECT_EQ(Rates(Options(Decay::kCosine, 4, 4), 4, 6), std::vector<double>({1, 0.1, 0.1}));
}

TEST(Schedule, ReachesTheMinimumAtTheLastUpdateAndStays) {
  for (Decay decay : {Decay::kLinear, Decay::kCosine, Decay::kWarmupStableDecay}) {
    const std::vector<double> rates = Rates(Options(decay, 10, 100), 99, 1000);
    EXPECT_GT(rates[0], 0.1);
    for (size_t i = 1; i < rates.size(); ++i) EXPECT_DOUBLE_EQ(rates[i], 0.1) << 99 + i;
  }
}

TEST(Schedule, NeverRisesAfterTheWarmup) {
  for (Decay decay : kDecays) {
    const std::vector<double> rates = Rates(Options(decay, 7, 50), 7, 80);
    for (size_t i = 1; i < rates.size(); ++i) EXPECT_LE(rates[i], rates[i - 1]);
  }
}

TEST(Schedule, HasTheShapeOfItsName) {
  EXPECT_EQ(Rate(Options(Decay::kConstant, 2, 0), 1000000), 1);
  // Half way from update 10 to 110.
  EXPECT_DOUBLE_EQ(Rate(Options(Decay::kLinear, 10, 110), 60), 0.55);
  EXPECT_DOUBLE_EQ(Rate(Options(Decay::kCosine, 10, 110), 60), 0.55);
  EXPECT_NEAR(Rate(Options(Decay::kCosine, 10, 110), 35), 0.1 + 0.9 * (0.5 + std::sqrt(2) / 4), 1e-15);
  EXPECT_DOUBLE_EQ(Rate(Options(Decay::kInverseSquareRoot, 4, 0), 16), 0.5);
  EXPECT_DOUBLE_EQ(Rate(Options(Decay::kInverseSquareRoot, 4, 0), 1 << 20), 0.1);
  // The last 50 of 110 updates decay.
  EXPECT_EQ(Rate(Options(Decay::kWarmupStableDecay, 10, 110), 60), 1);
  EXPECT_DOUBLE_EQ(Rate(Options(Decay::kWarmupStableDecay, 10, 110), 85), 0.55);
}

TEST(Schedule, LargeNumbersDoNotOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (Decay decay : kDecays) {
    for (double rate : {Rate(Options(decay, 1, kMax), kMax), Rate(Options(decay, kMax, kMax), 1)}) {
      EXPECT_TRUE(rate >= 0 && rate <= 1) << rate;
    }
  }
}

TEST(Schedule, NamesTheOptionThatIsWrong) {
  const auto fails = [](ScheduleOptions options, const std::string& name) {
    EXPECT_THAT(Schedule::Create(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
  };
  ScheduleOptions options = Options(Decay::kWarmupStableDecay, 10, 100);
  options.peak = 0;
  fails(options, "peak is 0");
  options.peak = std::numeric_limits<double>::quiet_NaN();
  fails(options, "peak");
  options = Options(Decay::kCosine, 10, 100);
  options.min = 2;
  fails(options, "min is 2");
  fails(Options(Decay::kCosine, -1, 100), "warmup_updates is -1");
  fails(Options(Decay::kLinear, 10, 9), "total_updates is 9");
  options = Options(Decay::kWarmupStableDecay, 10, 100);
  options.decay_updates = 91;
  fails(options, "decay_updates is 91");
}

}  // namespace
}  // namespace armature
