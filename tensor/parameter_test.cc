#include "armature/tensor/parameter.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/testing/gradient_place.h"

namespace armature {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class InitializeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend()); }
  // Elements [offset, offset + count) of the parameter, filled by themselves.
  std::vector<double> Values(const ParameterSpec& spec, uint64_t seed, int64_t offset, int64_t count,
                             DType dtype = DType::kF32) {
    const Tensor part = Tensor::Empty(*backend_, {count}, dtype, MemoryCategory::kOther);
    EXPECT_THAT(Initialize(*backend_, spec, seed, offset, part.view()), IsOk());
    return ToDoubles(part);
  }
  std::vector<double> Whole(const ParameterSpec& spec, uint64_t seed = 1) {
    return Values(spec, seed, 0, spec.global_shape.num_elements());
  }

  std::unique_ptr<Backend> backend_;
};

TEST_F(InitializeTest, ValuesDoNotDependOnHowAParameterIsCut) {
  for (const Initializer& init : {Initializer::Constant(0.5), Initializer::Normal(0.02),
                                  Initializer::Uniform(0.1), Initializer::XavierUniform(11, 13)}) {
    const ParameterSpec spec{"h.0.weight", {11, 13}, init};
    const std::vector<double> whole = Whole(spec);
    for (int64_t part : {1, 2, 3, 5, 64, 142}) {
      std::vector<double> joined;
      for (int64_t offset = 0; offset < 143; offset += part) {
        const std::vector<double> values = Values(spec, 1, offset, std::min<int64_t>(part, 143 - offset));
        joined.insert(joined.end(), values.begin(), values.end());
      }
      EXPECT_EQ(joined, whole) << "parts of " << part;
    }
  }
}

// What the parts hold, put back in place, is the whole bit for bit, and padding is 0.
TEST_F(InitializeTest, ValuesDoNotDependOnTheTensorAxis) {
  Sharding columns, padded_rows;
  columns.dim = 1;
  columns.sections = {4, 4, 8};
  padded_rows.dim = 0;
  padded_rows.padded = true;
  for (Sharding sharding : {columns, padded_rows}) {
    ParameterSpec spec{"w", {7, 16}, Initializer::Normal(0.02)};
    const std::vector<double> whole = Whole(spec);
    for (int parts : {1, 2, 4}) {
      std::vector<double> joined(whole.size());
      for (int part = 0; part < parts; ++part) {
        spec.sharding = sharding;
        spec.sharding.parts = parts;
        spec.sharding.part = part;
        const int64_t count = spec.LocalShape().num_elements();
        std::vector<double> local = Values(spec, 1, 0, count);
        // The same elements in two goes.
        std::vector<double> again = Values(spec, 1, 0, count / 3),
                            rest = Values(spec, 1, count / 3, count - count / 3);
        again.insert(again.end(), rest.begin(), rest.end());
        EXPECT_EQ(again, local);
        for (const ShardRun& run : RunsOf(spec.global_shape, spec.sharding, 0, count)) {
          for (int64_t i = 0; i < run.count; ++i) {
            joined[run.global + i] = local[run.local + i];
            local[run.local + i] = 0;
          }
        }
        EXPECT_THAT(local, Each(0.0)) << "padding";
      }
      EXPECT_EQ(joined, whole) << parts << " parts";
    }
  }
}

TEST_F(InitializeTest, SeedAndNameDecide) {
  const ParameterSpec spec{"a", {100}, Initializer::Normal(1)}, same{"a", {10, 10}, spec.init},
      other{"b", {100}, spec.init};
  EXPECT_EQ(Whole(spec), Whole(same));
  EXPECT_NE(Whole(spec), Whole(other));
  EXPECT_NE(Whole(spec, 1), Whole(spec, 2));
}

TEST_F(InitializeTest, HasTheMomentsAndBoundsThatTheNamesSay) {
  const int64_t n = 40000;
  double sum = 0, squares = 0;
  for (double value : Whole({"n", {n}, Initializer::Normal(0.02)})) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / n, 0, 5 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.02 * 0.02);
  const double bound = std::sqrt(6.0 / (30 + 10));
  const std::vector<double> uniform = Whole({"u", {n}, Initializer::XavierUniform(30, 10)});
  squares = 0;
  for (double value : uniform) {
    ASSERT_LE(std::abs(value), bound * (1 + 1e-6));
    squares += value * value;
  }
  EXPECT_NEAR(std::sqrt(squares / n), bound / std::sqrt(3.0), 0.02 * bound);
  EXPECT_THAT(Whole({"c", {5}, Initializer::Constant(1)}), Each(1.0));
}

TEST_F(InitializeTest, ANarrowDTypeHoldsTheSameValuesRounded) {
  const ParameterSpec spec{"w", {50}, Initializer::Normal(1)};
  const std::vector<double> narrow = Values(spec, 1, 0, 50, DType::kBF16);
  EXPECT_EQ(narrow, ToDoubles(FromDoubles(*backend_, {50}, Whole(spec), DType::kBF16)));
}

TEST(ParameterRegistry, FindsByNameAndRefusesTwins) {
  ParameterRegistry registry;
  ASSERT_OK_AND_ASSIGN(const ParameterId a, registry.Add({"a", {2, 3}, Initializer::Constant(0)}));
  ASSERT_OK_AND_ASSIGN(const ParameterId b, registry.Add({"b", {4}, Initializer::Constant(0)}));
  EXPECT_EQ(registry.num_elements(), 10);
  ASSERT_OK_AND_ASSIGN(const ParameterId found, registry.Find("b"));
  EXPECT_TRUE(found == b);
  EXPECT_FALSE(found == a);
  EXPECT_THAT(registry.Add({"a", {1}, Initializer::Constant(0)}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("named a")));
  ParameterSpec odd{"odd", {3}, Initializer::Constant(0)};
  odd.sharding.dim = 0;
  odd.sharding.parts = 2;
  EXPECT_THAT(registry.Add(odd), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parameter odd")));
  EXPECT_THAT(registry.Find("c"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("named c")));
  EXPECT_EQ(registry.specs().size(), 2u);
}

}  // namespace
}  // namespace armature
