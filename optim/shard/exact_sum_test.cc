#include "armature/optim/shard/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

// Magnitudes over twenty decades, where the order of a plain sum shows.
std::vector<float> Wild(int count) {
  std::mt19937 generator(7);
  std::uniform_real_distribution<float> sign(-1, 1), exponent(-10, 10);
  std::vector<float> values(count);
  for (float& value : values) value = sign(generator) * std::pow(10.0f, exponent(generator));
  return values;
}

double Sum(const std::vector<absl::Span<const float>>& parts, ThreadTeam* threads = nullptr) {
  return SumOfSquaresExactly(parts, LargestMagnitude(parts, threads), threads).ToDouble();
}

TEST(ExactSum, IsTheSumOfSquares) {
  const std::vector<float> values = Wild(50000);
  long double expected = 0;
  for (float value : values) expected += static_cast<long double>(value) * value;
  EXPECT_NEAR(Sum({values}), static_cast<double>(expected), 1e-14 * static_cast<double>(expected));
  const float three_four[] = {3, 4};
  EXPECT_EQ(Sum({three_four}), 25);
}

TEST(ExactSum, HasTheSameBitsForEveryOrderCutAndTeam) {
  std::vector<float> values = Wild(40001);
  const double expected = Sum({values});
  std::mt19937 generator(3);
  ThreadTeam team(2);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(values.begin(), values.end(), generator);
    const absl::Span<const float> all(values);
    const size_t cut = generator() % values.size();
    const std::vector<absl::Span<const float>> parts = {all.first(cut), all.subspan(cut)};
    EXPECT_EQ(Sum(parts, &team), expected);
    // As two ranks do it.
    const double largest = LargestMagnitude(parts, nullptr);
    ExactSum sum = SumOfSquaresExactly({parts[0]}, largest, nullptr);
    const ExactSum other = SumOfSquaresExactly({parts[1]}, largest, nullptr);
    for (int bin = 0; bin < 3; ++bin) sum.bins[bin] += other.bins[bin];
    EXPECT_EQ(sum.ToDouble(), expected);
  }
}

TEST(ExactSum, WithoutTermsIsZero) {
  EXPECT_EQ(Sum({}), 0);
  const float zeros[] = {0, 0};
  EXPECT_EQ(Sum({zeros}), 0);
}

TEST(LargestMagnitude, IsInfiniteForAnythingThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> values = {1, bad, 3};
    EXPECT_TRUE(std::isinf(LargestMagnitude({absl::MakeConstSpan(values)}, nullptr)));
  }
}

}  // namespace
}  // namespace armature
