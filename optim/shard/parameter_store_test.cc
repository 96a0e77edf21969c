#include "armature/optim/shard/parameter_store.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/optim/adam.h"
#include "armature/optim/sgd.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/testing/gradient_place.h"

namespace armature {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kRate = 0.1, kDecay = 0.5;

// A matrix, which decays, and two vectors, of lengths that no alignment divides.
std::vector<ParameterSpec> Specs() {
  return {{"w", {3, 5}, Initializer::Normal(1)},
          {"b", {3}, Initializer::Constant(2)},
          {"c", {1}, Initializer::Constant(-1)}};
}

std::vector<float> Elements(const ShardedArray& array) {
  const float* begin = static_cast<const float*>(array.local.data);
  return std::vector<float>(begin, begin + array.local.count);
}

using Kind = ParameterStore::Kind;

class ParameterStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend());
    AdamWOptions options;
    options.weight_decay = kDecay;
    ASSERT_OK_AND_ASSIGN(adamw_, MakeAdamW(options));
    ASSERT_OK_AND_ASSIGN(store_, ParameterStore::Create(*backend_, Specs(), *adamw_, {}));
  }
  // A microbatch whose loss has the gradient `gradient`, everywhere the same, for parameter `index`.
  void Contribute(int index, double gradient) {
    Tape tape(*backend_);
    const Tensor w = store_->Borrow(ParameterId{index}, &tape);
    const std::vector<double> seed(w.num_elements(), gradient);
    ASSERT_THAT(tape.Backward({ops::Scale(w, 1)}, {FromDoubles(*backend_, w.shape(), seed)}), IsOk());
  }
  StepFacts Step(int64_t count) {
    StepFacts facts;
    facts.count = count;
    facts.learning_rate = kRate;
    return facts;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<UpdateRule> adamw_;
  std::unique_ptr<ParameterStore> store_;
};

TEST_F(ParameterStoreTest, BeginsWithTheSpecsInitialValues) {
  const std::vector<ParameterSpec> specs = Specs();
  const std::vector<ShardedArray> weights = store_->Slices(Kind::kWeights, false);
  ASSERT_EQ(weights.size(), specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    const Tensor expected =
        Tensor::Empty(*backend_, specs[i].global_shape, DType::kF32, MemoryCategory::kOther);
    ASSERT_THAT(Initialize(*backend_, specs[i], /*seed=*/0, 0, expected.view()), IsOk());
    EXPECT_EQ(weights[i].name, specs[i].name);
    EXPECT_EQ(weights[i].global_shape, specs[i].global_shape);
    EXPECT_EQ(weights[i].local.count, specs[i].global_shape.num_elements());
    EXPECT_EQ(ToDoubles(store_->Borrow(ParameterId{static_cast<int>(i)}, nullptr)), ToDoubles(expected));
  }
  EXPECT_EQ(store_->num_parameters(), 19);
  ParameterStoreOptions options;
  options.seed = 1;
  ASSERT_OK_AND_ASSIGN(const auto other, ParameterStore::Create(*backend_, specs, *adamw_, options));
  EXPECT_NE(Elements(other->Slices(Kind::kWeights, false)[0]), Elements(weights[0]));
}

TEST_F(ParameterStoreTest, ReductionsFollowTheOrderOfTheFirstStepsGradients) {
  ParameterStoreOptions options;
  options.bucket_elements = 1;  // each parameter has its own bucket, the last one number 0
  ASSERT_OK_AND_ASSIGN(store_, ParameterStore::Create(*backend_, Specs(), *adamw_, options));
  EXPECT_THAT(store_->gradients().order(), ElementsAre(0, 1, 2));
  for (const std::vector<int>& used : std::vector<std::vector<int>>{{0, 2}, {2, 1, 0}}) {
    store_->BeginStep(1);
    for (int parameter : used) Contribute(parameter, 1);
    ASSERT_THAT(store_->EndMicrobatch(), IsOk());
    ASSERT_THAT(store_->FinishGradients(), IsOk());
    EXPECT_THAT(store_->gradients().order(), ElementsAre(2, 0, 1));  // what got none comes last
  }
}

TEST_F(ParameterStoreTest, ABorrowedWeightIsTheStoresOwnMemory) {
  EXPECT_EQ(store_->Borrow(ParameterId{1}, nullptr).data(),
            store_->Slices(Kind::kWeights, false)[1].local.data);
  Tape tape(*backend_);
  EXPECT_EQ(store_->Borrow(ParameterId{1}, &tape).data(),
            store_->Slices(Kind::kWeights, false)[1].local.data);
  for (int index : {-1, 3}) {
    EXPECT_THAT(store_->Borrow(ParameterId{index}, nullptr).status(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(std::to_string(index))));
  }
}

TEST_F(ParameterStoreTest, EachStepsFirstContributionOverwritesAndLaterOnesAdd) {
  for (double step : {1.0, 10.0}) {
    store_->BeginStep(1);
    Contribute(0, step);
    Contribute(0, 2 * step);
    Contribute(1, 5 * step);
    ASSERT_THAT(store_->FinishGradients(), IsOk());
    const std::vector<ShardedArray> gradients = store_->Slices(Kind::kGradients, false);
    EXPECT_THAT(Elements(gradients[0]), Each(3 * step));
    EXPECT_THAT(Elements(gradients[1]), Each(5 * step));
  }
}

TEST_F(ParameterStoreTest, AParameterThatNothingFlowedIntoGetsZerosAndIsNamed) {
  store_->BeginStep(1);
  for (int index : {0, 1, 2}) Contribute(index, 7);
  ASSERT_THAT(store_->FinishGradients(), IsOk());
  EXPECT_THAT(store_->ParametersWithoutGradient(), IsEmpty());
  store_->BeginStep(1);
  Contribute(1, 2);
  EXPECT_THAT(store_->ParametersWithoutGradient(), ElementsAre("w", "c"));
  ASSERT_THAT(store_->FinishGradients(), IsOk());
  EXPECT_THAT(Elements(store_->Slices(Kind::kGradients, false)[0]), Each(0.0f));
  EXPECT_THAT(Elements(store_->Slices(Kind::kGradients, false)[1]), Each(2.0f));
  EXPECT_THAT(Elements(store_->Slices(Kind::kGradients, false)[2]), Each(0.0f));
}

TEST_F(ParameterStoreTest, OneTapesSeveralUsesAddUp) {
  store_->BeginStep(1);
  Tape tape(*backend_);
  const Tensor sum = ops::Add(ops::Scale(store_->Borrow(ParameterId{1}, &tape), 10),
                              ops::Scale(store_->Borrow(ParameterId{1}, &tape), 30));
  ASSERT_THAT(tape.Backward({sum}, {FromDoubles(*backend_, {3}, {1, 1, 1})}), IsOk());
  ASSERT_THAT(store_->FinishGradients(), IsOk());
  EXPECT_THAT(Elements(store_->Slices(Kind::kGradients, false)[1]), Each(40.0f));
}

TEST_F(ParameterStoreTest, TheNormCountsEachElementOnceAndNoPadding) {
  store_->BeginStep(1);
  Contribute(0, 3);
  Contribute(2, 4);
  ASSERT_THAT(store_->FinishGradients(), IsOk());
  EXPECT_DOUBLE_EQ(store_->GradientSquares(), 15 * 9 + 16);
}

TEST_F(ParameterStoreTest, AnUpdateIsTheRuleAppliedToEachParameter) {
  const std::vector<float> before = Elements(store_->Slices(Kind::kWeights, false)[0]);
  store_->BeginStep(1);
  Contribute(0, 0.5);
  Contribute(1, -1);
  ASSERT_THAT(store_->FinishGradients(), IsOk());
  ASSERT_THAT(store_->Update(*adamw_, Step(1)), IsOk());
  const std::vector<ShardedArray> weights = store_->Slices(Kind::kWeights, false);
  const std::vector<ShardedArray> states = store_->Slices(Kind::kStates, false);
  // The first step of AdamW moves by the rate against the gradient's sign; only the matrix decays.
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(Elements(weights[0])[i], before[i] * (1 - kRate * kDecay) - kRate, 1e-6);
  }
  for (float value : Elements(weights[1])) EXPECT_NEAR(value, 2 + kRate, 1e-6);
  EXPECT_THAT(Elements(weights[2]), ElementsAre(-1));
  for (float m : Elements(states[0])) EXPECT_NEAR(m, 0.1 * 0.5, 1e-8);
  for (float v : Elements(states[4])) EXPECT_NEAR(v, 0.001 * 1, 1e-9);
}

TEST_F(ParameterStoreTest, StatesBeginAtZeroUnderTheStatesAndTheParametersNames) {
  std::vector<std::string> names;
  for (const ShardedArray& state : store_->Slices(Kind::kStates, false)) {
    names.push_back(state.name);
    EXPECT_THAT(Elements(state), Each(0.0f)) << state.name;
  }
  EXPECT_THAT(names, ElementsAre("optimizer.m.w", "optimizer.m.b", "optimizer.m.c", "optimizer.v.w",
                                 "optimizer.v.b", "optimizer.v.c"));
  EXPECT_EQ(store_->Slices(Kind::kStates, false)[3].global_shape, (Shape{3, 5}));
  ASSERT_OK_AND_ASSIGN(const auto sgd, MakeSgd({}));
  ASSERT_OK_AND_ASSIGN(const auto stateless, ParameterStore::Create(*backend_, Specs(), *sgd, {}));
  EXPECT_THAT(stateless->Slices(Kind::kStates, false), IsEmpty());
}

TEST_F(ParameterStoreTest, AFailedUpdateTouchesNothing) {
  store_->BeginStep(1);
  Contribute(0, 1);
  ASSERT_THAT(store_->FinishGradients(), IsOk());
  const std::vector<float> before = Elements(store_->Slices(Kind::kWeights, false)[0]);
  EXPECT_THAT(store_->Update(*adamw_, Step(0)), StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(const auto sgd, MakeSgd({}));
  EXPECT_THAT(store_->Update(*sgd, Step(1)), StatusIs(absl::StatusCode::kInvalidArgument))
      << "another rule's states";
  EXPECT_EQ(Elements(store_->Slices(Kind::kWeights, false)[0]), before);
}

TEST_F(ParameterStoreTest, ATeamOfThreadsChangesNoBit) {
  ThreadTeam team(3);
  ParameterStoreOptions options;
  options.threads = &team;
  ASSERT_OK_AND_ASSIGN(auto threaded, ParameterStore::Create(*backend_, Specs(), *adamw_, options));
  std::vector<std::vector<float>> weights;
  for (int i = 0; i < 2; ++i) {
    store_->BeginStep(1);
    Contribute(0, 0.3);
    ASSERT_THAT(store_->FinishGradients(), IsOk());
    ASSERT_THAT(store_->Update(*adamw_, Step(1)), IsOk());
    weights.push_back(Elements(store_->Slices(Kind::kWeights, false)[0]));
    std::swap(store_, threaded);
  }
  EXPECT_EQ(weights[0], weights[1]);
}

TEST_F(ParameterStoreTest, MemoryIsCountedByWhatItIsForAndGivenBack) {
  const auto live = [&](MemoryCategory category) {
    return backend_->allocator().counters(category).live_bytes;
  };
  const int64_t bucket = live(MemoryCategory::kParameters);
  EXPECT_GE(bucket, 19 * 4);
  EXPECT_EQ(live(MemoryCategory::kGradients), bucket);
  EXPECT_EQ(live(MemoryCategory::kOptimizer), 2 * bucket);
  store_ = nullptr;
  EXPECT_EQ(backend_->allocator().total().live_bytes, 0);
}

TEST_F(ParameterStoreTest, MemoryThatRunsOutIsAnError) {
  CpuOptions options;
  options.memory_limit_bytes = 10 << 20;
  ASSERT_OK_AND_ASSIGN(const auto small, MakeCpuBackend(options));
  const std::vector<ParameterSpec> specs = {{"w", {1 << 20}, Initializer::Constant(0)}};  // 4 MiB, four times
  EXPECT_THAT(ParameterStore::Create(*small, specs, *adamw_, {}),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(small->allocator().total().live_bytes, 0);
}

TEST_F(ParameterStoreTest, ARankMayOwnNoParameters) {
  ASSERT_OK_AND_ASSIGN(const auto none, ParameterStore::Create(*backend_, {}, *adamw_, {}));
  none->BeginStep(1);
  ASSERT_THAT(none->FinishGradients(), IsOk());
  EXPECT_EQ(none->GradientSquares(), 0);
  EXPECT_THAT(none->Update(*adamw_, Step(1)), IsOk());
  EXPECT_THAT(none->Slices(Kind::kWeights, false), IsEmpty());
}

}  // namespace
}  // namespace armature
