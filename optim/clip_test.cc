#include "armature/optim/clip.h"

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "armature/optim/testing/highway_targets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

std::vector<float> Wave(int64_t count) {
  std::vector<float> x(count);
  for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i)));
  return x;
}

TEST(SumOfSquares, IsThatOfTheScalarLoopOnEveryTarget) {
  ForEachHighwayTarget([] {
    for (int64_t count : {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65, 1000, 16384, 16385, 50001}) {
      const std::vector<float> x = Wave(count);
      double expected = 0;
      for (float value : x) expected += static_cast<double>(value) * value;
      const absl::Span<const float> parts[] = {x};
      EXPECT_NEAR(SumOfSquares(parts, nullptr), expected, 1e-12 * expected) << count;
    }
  });
}

TEST(SumOfSquares, HasTheSameBitsForEveryTeam) {
  const std::vector<float> a = Wave(200001), b = Wave(17), c = Wave(70000);
  const absl::Span<const float> parts[] = {a, b, {}, c};
  const double alone = SumOfSquares(parts, nullptr);
  for (int size : {1, 2, 3, 5, 8}) {
    ThreadTeam team(size);
    EXPECT_EQ(SumOfSquares(parts, &team), alone) << size;
  }
}

TEST(SumOfSquares, OfTheLargestFloatsDoesNotOverflow) {
  constexpr float kMax = std::numeric_limits<float>::max();
  const std::vector<float> x(1000, kMax);
  const absl::Span<const float> parts[] = {x};
  EXPECT_NEAR(std::sqrt(SumOfSquares(parts, nullptr)) / kMax, std::sqrt(1000.0), 1e-12);
}

TEST(SumOfSquares, KeepsInfinityAndNanWhereverTheyStand) {
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    for (int64_t at : {0, 17, 16383, 16384, 20000}) {
      std::vector<float> x = Wave(20001);
      x[at] = bad;
      const absl::Span<const float> parts[] = {x};
      EXPECT_FALSE(std::isfinite(SumOfSquares(parts, nullptr))) << bad << " at " << at;
    }
  }
}

TEST(ClipFactor, LeavesSmallNormsAndScalesLargeOnes) {
  EXPECT_EQ(ClipFactor(0, 1), 1);
  EXPECT_EQ(ClipFactor(0.5, 1), 1);
  EXPECT_EQ(ClipFactor(5, 1), static_cast<float>(1 / (5 + 1e-6)));
  EXPECT_EQ(ClipFactor(1e30, std::numeric_limits<double>::infinity()), 1);
}

TEST(ClipFactor, HasNoFactorForNormsThatAreNotFinite) {
  EXPECT_EQ(ClipFactor(std::numeric_limits<double>::infinity(), 1), absl::nullopt);
  EXPECT_EQ(ClipFactor(std::numeric_limits<double>::quiet_NaN(), 1), absl::nullopt);
}

}  // namespace
}  // namespace armature
