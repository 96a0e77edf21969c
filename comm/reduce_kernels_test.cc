#include "armature/comm/reduce_kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "armature/tensor/float16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

template <class T>
std::vector<T> Reduce(DType dtype, ReduceOp op, const std::vector<std::vector<T>>& sources) {
  std::vector<T> out(sources[0].size());
  std::vector<const void*> from;
  for (const auto& source : sources) from.push_back(source.data());
  void* const to = out.data();
  ReduceInto(dtype, op, from, {&to, 1}, static_cast<int64_t>(out.size()));
  return out;
}

template <class H>
std::vector<uint16_t> Halves(int count, float value) {
  return std::vector<uint16_t>(count, H(value).bits);
}

TEST(ReduceInto, AveragesOfIntegersTruncateTowardZero) {
  using V = std::vector<int32_t>;
  EXPECT_THAT(Reduce<int32_t>(DType::kI32, ReduceOp::kAvg, {V(130, 1), V(130, 2), V(130, 4)}), Each(2));
  EXPECT_THAT(Reduce<int32_t>(DType::kI32, ReduceOp::kAvg, {V(130, -1), V(130, -2), V(130, -4)}), Each(-2));
  const int32_t most = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(Reduce<int32_t>(DType::kI32, ReduceOp::kAvg, {V(5, most), V(5, most)}), Each(most));
}

TEST(ReduceInto, OneSourceIsCopiedWhateverTheOperation) {
  for (int count = 1; count <= 130; ++count) {
    std::vector<uint16_t> source(count);
    for (int i = 0; i < count; ++i)
      source[i] = static_cast<uint16_t>(0x7F81 + i);  // signalling NaNs among them
    for (ReduceOp op : kAllReduceOps) EXPECT_EQ(Reduce<uint16_t>(DType::kBF16, op, {source}), source);
  }
}

TEST(ReduceInto, MinAndMaxOfNanAreNanWhoeverHoldsIt) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    for (int holder = 0; holder < 3; ++holder) {
      std::vector<std::vector<float>> sources(3, std::vector<float>(37, 1.0f));
      sources[holder] = std::vector<float>(37, nan);
      for (float value : Reduce<float>(DType::kF32, op, sources)) EXPECT_TRUE(std::isnan(value));
      std::vector<std::vector<uint16_t>> halves(3, Halves<BFloat16>(37, 1.0f));
      halves[holder] = Halves<BFloat16>(37, nan);
      for (uint16_t bits : Reduce<uint16_t>(DType::kBF16, op, halves)) EXPECT_GT(bits & 0x7FFF, 0x7F80);
    }
  }
}

// 256 + 1 + 1: bf16 keeps 8 bits, so rounding after each addition would lose both ones.
TEST(ReduceInto, HalvesAccumulateInFloatAndRoundOnce) {
  const auto out =
      Reduce<uint16_t>(DType::kBF16, ReduceOp::kSum,
                       {Halves<BFloat16>(100, 256), Halves<BFloat16>(100, 1), Halves<BFloat16>(100, 1)});
  EXPECT_THAT(out, Each(BFloat16(258.0f).bits));
  const auto half =
      Reduce<uint16_t>(DType::kF16, ReduceOp::kSum,
                       {Halves<Float16>(100, 2048), Halves<Float16>(100, 1), Halves<Float16>(100, 1)});
  EXPECT_THAT(half, Each(Float16(2050.0f).bits));
}

TEST(ReduceInto, HalvesRoundAsTheScalarConversionDoes) {
  std::vector<std::vector<uint16_t>> bf16(2), f16(2);
  std::vector<uint16_t> bf16_sum, f16_sum;
  for (int i = 0; i < 4000; ++i) {
    const float a = std::ldexp(1.0f + 0.001f * i, i % 40 - 24),
                b = std::ldexp(1.5f - 0.0003f * i, i % 31 - 16);
    const BFloat16 ba(a), bb(b);
    const Float16 fa(a), fb(b);
    bf16[0].push_back(ba.bits), bf16[1].push_back(bb.bits), f16[0].push_back(fa.bits),
        f16[1].push_back(fb.bits);
    bf16_sum.push_back(BFloat16(static_cast<float>(ba) + static_cast<float>(bb)).bits);
    f16_sum.push_back(Float16(static_cast<float>(fa) + static_cast<float>(fb)).bits);
  }
  EXPECT_EQ(Reduce(DType::kBF16, ReduceOp::kSum, bf16), bf16_sum);
  EXPECT_EQ(Reduce(DType::kF16, ReduceOp::kSum, f16), f16_sum);
}

TEST(ReduceInto, BoolIsAnyOrAll) {
  using V = std::vector<uint8_t>;
  const std::vector<V> sources = {V{0, 0, 1, 1}, V{0, 1, 0, 1}};
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    EXPECT_THAT(Reduce(DType::kBool, op, sources), ElementsAre(0, 1, 1, 1));
  }
  for (ReduceOp op : {ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kAvg}) {
    EXPECT_THAT(Reduce(DType::kBool, op, sources), ElementsAre(0, 0, 0, 1));
  }
}

TEST(ReduceInto, ProductsOfIntegersWrapAround) {
  using Wide = std::vector<int64_t>;
  using Bytes = std::vector<uint8_t>;
  const int64_t big = int64_t{1} << 62;
  EXPECT_THAT(Reduce<int64_t>(DType::kI64, ReduceOp::kProd, {Wide(9, big), Wide(9, -6)}),
              Each(std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(Reduce<uint8_t>(DType::kU8, ReduceOp::kProd, {Bytes(9, 100), Bytes(9, 3)}), Each(44));
}

TEST(ReduceInto, SumsInABalancedTreeOverTheSources) {
  // 2^24 + 1 is no f32: one after the other the ones would be lost, in pairs they are not.
  const float big = 16777216.0f;
  const std::vector<std::vector<float>> sources = {{big}, {0}, {1}, {1}, {1}, {1}, {1}, {1}};
  std::vector<const void*> from;
  for (const std::vector<float>& source : sources) from.push_back(source.data());
  float sum = 0;
  void* to = &sum;
  ReduceInto(DType::kF32, ReduceOp::kSum, from, {&to, 1}, 1);
  EXPECT_EQ(sum, big + 6);
  ReduceInto(DType::kF32, ReduceOp::kSum, absl::MakeConstSpan(from).first(4), {&to, 1}, 1);
  EXPECT_EQ(sum, big + 2);
  ReduceInto(DType::kF32, ReduceOp::kSum, absl::MakeConstSpan(from).first(3), {&to, 1}, 1);
  EXPECT_EQ(sum, big);  // ((0 1) 2): the one is lost
}

TEST(ReduceInto, TargetsMayBeSources) {
  std::vector<float> a(5000), b(5000);
  for (int i = 0; i < 5000; ++i) a[i] = i, b[i] = 2 * i;
  const void* from[] = {a.data(), b.data()};
  void* to[] = {a.data(), b.data()};
  ReduceInto(DType::kF32, ReduceOp::kSum, from, to, 5000);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(a[i], 3.0f * i);
    ASSERT_EQ(b[i], 3.0f * i);
  }
}

}  // namespace
}  // namespace comm
}  // namespace armature
