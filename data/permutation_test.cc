#include "armature/data/permutation.h"

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace armature {
namespace {

TEST(Permutation, EveryElementOnce) {
  for (int64_t size : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 1023, 1025}) {
    for (uint64_t stream = 0; stream < 5; ++stream) {
      const Permutation order(size, 7, stream);
      std::set<int64_t> seen;
      for (int64_t i = 0; i < size; ++i) seen.insert(order[i]);
      ASSERT_EQ(seen.size(), size);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), size - 1);
    }
  }
}

TEST(Permutation, SizesNear2To63StayInside) {
  const int64_t size = std::numeric_limits<int64_t>::max();
  const Permutation order(size, 1, 2);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    for (int64_t index : {i, size - 1 - i}) {
      EXPECT_GE(order[index], 0);
      EXPECT_LT(order[index], size);
      seen.insert(order[index]);
    }
  }
  EXPECT_EQ(seen.size(), 2000);
}

TEST(Permutation, SeedAndStreamChangeTheOrder) {
  const auto sequence = [](uint64_t seed, uint64_t stream) {
    const Permutation order(20, seed, stream);
    std::vector<int64_t> result;
    for (int64_t i = 0; i < 20; ++i) result.push_back(order[i]);
    return result;
  };
  EXPECT_EQ(sequence(1, 2), sequence(1, 2));
  std::set<std::vector<int64_t>> distinct;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (uint64_t stream = 0; stream < 20; ++stream) distinct.insert(sequence(seed, stream));
  }
  EXPECT_EQ(distinct.size(), 400);
}

// Checkpoints keep a position, not an order: the order of a (seed, stream) must never change.
TEST(Permutation, TheOrderIsPartOfTheFormat) {
  const Permutation order(10, 7, 0);
  std::vector<int64_t> sequence;
  for (int64_t i = 0; i < 10; ++i) sequence.push_back(order[i]);
  EXPECT_EQ(sequence, (std::vector<int64_t>{7, 6, 4, 1, 2, 3, 8, 5, 0, 9}));
}

// Over many streams each element comes equally often at each place, and each pair of neighbours.
TEST(Permutation, IsUniform) {
  for (int64_t size : {2, 3, 5, 10, 13}) {
    constexpr int kStreams = 20000;
    std::vector<int> places(size * size), neighbours(size * size);
    for (int stream = 0; stream < kStreams; ++stream) {
      const Permutation order(size, 42, stream);
      for (int64_t i = 0; i < size; ++i) {
        ++places[i * size + order[i]];
        if (i > 0) ++neighbours[order[i - 1] * size + order[i]];
      }
    }
    const auto chi_square = [](const std::vector<int>& counts, double expected, auto counted) {
      double sum = 0;
      for (size_t cell = 0; cell < counts.size(); ++cell) {
        if (counted(cell)) sum += (counts[cell] - expected) * (counts[cell] - expected) / expected;
      }
      return sum;
    };
    // The statistic's mean is its degrees of freedom, its deviation sqrt(2 * that): six deviations above.
    const auto bound = [](double freedom) { return freedom + 6 * std::sqrt(2 * freedom); };
    const double n = static_cast<double>(size);
    EXPECT_LT(chi_square(places, kStreams / n, [](size_t) { return true; }), bound((n - 1) * (n - 1)))
        << size;
    EXPECT_LT(chi_square(neighbours, kStreams / n, [&](size_t cell) { return cell / size != cell % size; }),
              bound(n * n - n))
        << size;
  }
}

}  // namespace
}  // namespace armature
