#include "armature/tensor/float16.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace armature {
namespace {

using internal::FloatBits;
using internal::FloatFromBits;

// Case A05.
TEST(BFloat16, RoundsToNearestEvenAndKeepsNan) {
  const uint32_t in[] = {0x3E89CCD5, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800001, 0x00018000};
  const uint16_t out[] = {0x3E8A, 0x3F80, 0x3F82, 0x3F81, 0x7F80, 0x7FC0, 0x0002};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(BFloat16(FloatFromBits(in[i])).bits, out[i]) << std::hex << in[i];
}

TEST(Float16, RoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(Float16(65519.99f).bits, 0x7BFF);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(Float16(std::ldexp(1.0f, -25)).bits, 0x0000);
  EXPECT_EQ(Float16(1.5f * std::ldexp(1.0f, -24)).bits, 0x0002);
  EXPECT_EQ(Float16(-65520.0f).bits, 0xFC00);
  EXPECT_TRUE(std::isnan(static_cast<float>(Float16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Float16, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Float16 half;
    half.bits = static_cast<uint16_t>(bits);
    const float value = static_cast<float>(half);
    if (std::isnan(value)) continue;
    EXPECT_EQ(Float16(value).bits, bits);
  }
}

TEST(BFloat16, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    BFloat16 half;
    half.bits = static_cast<uint16_t>(bits);
    const float value = static_cast<float>(half);
    if (std::isnan(value)) continue;
    EXPECT_EQ(BFloat16(value).bits, bits);
  }
}

}  // namespace
}  // namespace armature
