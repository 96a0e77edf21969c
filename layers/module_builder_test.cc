#include "armature/layers/module_builder.h"

#include <set>

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ModuleBuilderTest : public ::testing::Test {
 protected:
  ModuleBuilderTest() { shared_.registry = &registry_; }
  ParameterRegistry registry_;
  ModuleBuilder::Shared shared_;
  const Initializer zero_ = Initializer::Constant(0);
};

TEST_F(ModuleBuilderTest, ScopesNestInNames) {
  ModuleBuilder builder(shared_);
  ModuleBuilder block = builder.Scope("h.0"), layer = block.Scope("attn");
  layer.Parameter("weight", {2, 3}, zero_);
  block.Parameter("bias", {4}, zero_);
  builder.Parameter("top", {5}, zero_);
  ASSERT_THAT(builder.status(), IsOk());
  EXPECT_THAT(registry_.Find("h.0.attn.weight"), IsOk());
  EXPECT_THAT(registry_.Find("h.0.bias"), IsOk());
  EXPECT_THAT(registry_.Find("top"), IsOk());
}

TEST_F(ModuleBuilderTest, TheFirstErrorOfAnyScopeFailsTheBuild) {
  ModuleBuilder builder(shared_);
  ModuleBuilder a = builder.Scope("a");
  a.Parameter("weight", {2}, zero_);
  a.Parameter("weight", {2}, zero_);
  builder.Scope("b").Fail(absl::InternalError("later"));
  EXPECT_THAT(builder.status(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("a.weight")));
}

TEST_F(ModuleBuilderTest, ATiedParameterIsTheSameOneInAnyScope) {
  ModuleBuilder builder(shared_);
  const ParameterId table = builder.Scope("wte").Parameter("weight", {7, 3}, zero_);
  EXPECT_TRUE(builder.Scope("head").Tied("wte.weight", {7, 3}, zero_) == table);
  EXPECT_EQ(registry_.specs().size(), 1u);
  EXPECT_THAT(builder.status(), IsOk());
}

TEST_F(ModuleBuilderTest, ATiedParameterIsDeclaredWhereItsFirstBlockIsElsewhere) {
  ModuleBuilder builder(shared_);
  const ParameterId table = builder.Tied("wte.weight", {7, 3}, Initializer::Normal(0.02));
  ASSERT_EQ(table.index, 0);
  EXPECT_EQ(registry_.specs()[0].name, "wte.weight");
  EXPECT_EQ(registry_.specs()[0].global_shape, (Shape{7, 3}));
  EXPECT_EQ(registry_.specs()[0].init.scale, 0.02);
}

TEST_F(ModuleBuilderTest, ATiedParameterOfAnotherShapeFailsTheBuild) {
  ModuleBuilder builder(shared_);
  builder.Scope("wte").Parameter("weight", {7, 3}, zero_);
  builder.Tied("wte.weight", {3, 7}, zero_);
  EXPECT_THAT(builder.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("wte.weight"), HasSubstr("[7, 3]"), HasSubstr("[3, 7]"))));
}

TEST_F(ModuleBuilderTest, ParametersAreSplitAsTheTensorAxisSays) {
  shared_.tensor_rank = 1;
  shared_.tensor_size = 2;
  ModuleBuilder builder(shared_);
  builder.Parameter("columns", {4, 12}, zero_, builder.Split(1, {4, 4, 4}));
  builder.Parameter("rows", {5, 4}, zero_, builder.SplitPadded(0));
  builder.Parameter("whole", {4}, zero_, builder.WholeOnSlices());
  ASSERT_THAT(builder.status(), IsOk());
  EXPECT_EQ(registry_.specs()[0].LocalShape(), (Shape{4, 6}));
  EXPECT_EQ(registry_.specs()[1].LocalShape(), (Shape{3, 4}));
  EXPECT_EQ(registry_.specs()[2].LocalShape(), (Shape{4}));
  EXPECT_FALSE(registry_.specs()[2].sharding.partial_gradient);
  shared_.sequence_parallel = true;
  EXPECT_TRUE(builder.WholeOnSlices().partial_gradient);
  shared_.tensor_size = 1;
  EXPECT_FALSE(builder.WholeOnSlices().partial_gradient) << "the gradient of a rank alone is whole";
}

TEST_F(ModuleBuilderTest, ATiedParameterIsSplitAsWhereItWasDeclared) {
  shared_.tensor_size = 2;
  ModuleBuilder builder(shared_);
  builder.Scope("wte").Parameter("weight", {8, 4}, zero_, builder.SplitPadded(0));
  builder.Tied("wte.weight", {8, 4}, zero_, builder.SplitPadded(0));
  ASSERT_THAT(builder.status(), IsOk());
  builder.Tied("wte.weight", {8, 4}, zero_);
  EXPECT_THAT(builder.status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("wte.weight is split")));
}

TEST_F(ModuleBuilderTest, LayersHaveTheSameNumbersWhicheverBlocksARankOwns) {
  const auto numbers = [](int block) {
    ParameterRegistry registry;
    ModuleBuilder::Shared shared;
    shared.registry = &registry;
    shared.block = block;
    ModuleBuilder builder(shared);
    std::vector<int64_t> layers = {builder.NextLayer(), builder.Scope("x").NextLayer(), builder.NextLayer()};
    return layers;
  };
  std::set<int64_t> all;
  for (int block : {0, 1, 2, 95}) {
    for (int64_t layer : numbers(block)) EXPECT_TRUE(all.insert(layer).second) << layer;
  }
  EXPECT_EQ(numbers(1), numbers(1));
}

}  // namespace
}  // namespace armature
