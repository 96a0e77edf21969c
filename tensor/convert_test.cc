#include "armature/tensor/convert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "armature/tensor/float16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

template <typename To, typename From>
To ConvertOne(From value, DType from, DType to) {
  To result;
  ConvertElements(reinterpret_cast<const char*>(&value), from, reinterpret_cast<char*>(&result), to, 1);
  return result;
}

TEST(ConvertElements, WidensExactly) {
  EXPECT_EQ(ConvertOne<float>(BFloat16(1.5f), DType::kBF16, DType::kF32), 1.5f);
  EXPECT_EQ(ConvertOne<double>(Float16(-0.25f), DType::kF16, DType::kF64), -0.25);
  EXPECT_EQ(ConvertOne<double>(3.0f, DType::kF32, DType::kF64), 3.0);
}

TEST(ConvertElements, NarrowsToNearestEven) {
  EXPECT_EQ(ConvertOne<float>(1.0 + 0x1p-24, DType::kF64, DType::kF32), 1.0f);
  EXPECT_EQ(ConvertOne<BFloat16>(1.0f + 0x1p-8f, DType::kF32, DType::kBF16).bits, BFloat16(1.0f).bits);
  EXPECT_TRUE(std::isinf(ConvertOne<float>(1e300, DType::kF64, DType::kF32)));
  EXPECT_TRUE(std::isinf(static_cast<float>(ConvertOne<Float16>(-1e300, DType::kF64, DType::kF16))));
  EXPECT_TRUE(std::isnan(static_cast<float>(ConvertOne<BFloat16>(std::nan(""), DType::kF64, DType::kBF16))));
}

// A hair over the middle between two bf16 numbers: through f32 it would first round to the middle, then down
// to even.
TEST(ConvertElements, NarrowsF64InOneRounding) {
  const double over_the_middle = 1.0 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(static_cast<float>(ConvertOne<BFloat16>(over_the_middle, DType::kF64, DType::kBF16)),
            1.0f + 0x1p-7f);
  EXPECT_EQ(static_cast<float>(ConvertOne<BFloat16>(-over_the_middle, DType::kF64, DType::kBF16)),
            -1.0f - 0x1p-7f);
  EXPECT_EQ(static_cast<float>(ConvertOne<Float16>(1.0 + 0x1p-11 + 0x1p-45, DType::kF64, DType::kF16)),
            1.0f + 0x1p-10f);
}

TEST(ConvertElements, ReadsAndWritesUnaligned) {
  std::vector<char> from(1 + 3 * 4), to(1 + 3 * 8);
  const float values[3] = {1, 2, 3};
  std::memcpy(from.data() + 1, values, sizeof(values));
  ConvertElements(from.data() + 1, DType::kF32, to.data() + 1, DType::kF64, 3);
  double result[3];
  std::memcpy(result, to.data() + 1, sizeof(result));
  EXPECT_THAT(result, ::testing::ElementsAre(1, 2, 3));
}

TEST(CanConvert, OnlyEqualTypesAndFloats) {
  EXPECT_TRUE(CanConvert(DType::kI64, DType::kI64));
  EXPECT_TRUE(CanConvert(DType::kBF16, DType::kF64));
  EXPECT_FALSE(CanConvert(DType::kI32, DType::kI64));
  EXPECT_FALSE(CanConvert(DType::kF32, DType::kI32));
  EXPECT_FALSE(CanConvert(DType::kBool, DType::kU8));
}

}  // namespace
}  // namespace armature
