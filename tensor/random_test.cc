#include "armature/tensor/random.h"

#include <cmath>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

using ::testing::ElementsAre;

// The known answers that the Random123 library publishes for philox4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(Philox({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(RandomKey, EveryPartOfTheKeyMatters) {
  std::set<std::array<uint32_t, 2>> keys;
  for (uint64_t seed : {0, 1})
    for (RandomPurpose purpose : {RandomPurpose::kInitialize, RandomPurpose::kDropout})
      for (uint64_t step : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
        for (uint64_t layer : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
          keys.insert(MakeRandomKey(seed, purpose, step, layer).words);
  EXPECT_EQ(keys.size(), 2u * 2 * 3 * 3);
}

TEST(RandomBits, AreWordsOfTheirBlock) {
  const RandomKey key = MakeRandomKey(7, RandomPurpose::kDropout, 3, 1);
  for (uint64_t element = 0; element < 12; ++element) {
    EXPECT_EQ(RandomBits(key, 5, element), RandomBlock(key, 5, element / 4)[element % 4]);
  }
  EXPECT_NE(RandomBits(key, 5, 0), RandomBits(key, 6, 0));
}

TEST(NormalFloat, HasMeanZeroAndVarianceOne) {
  const RandomKey key = MakeRandomKey(1, RandomPurpose::kInitialize, 0, 0);
  const int n = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = NormalFloat(key, i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.02);
}

TEST(UniformFloat, StaysBelowOne) {
  EXPECT_EQ(UniformFloat(0), 0.0f);
  EXPECT_LT(UniformFloat(~0u), 1.0f);
}

}  // namespace
}  // namespace armature
