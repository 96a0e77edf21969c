// One step: its numbers, and what it leaves behind when it does not end well.
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "armature/base/clock.h"
#include "armature/base/status_matchers.h"
#include "armature/engine/engine.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Pass = HookBlock::Pass;

// The gradient of the model's one weight.
absl::StatusOr<float> GradientOfStep(Engine& engine, const Batch& batch, double* loss) {
  float gradient = 0;
  StepOptions options;
  options.on_gradients = [&](absl::Span<const NamedBuffer> gradients) {
    gradient = *static_cast<const float*>(gradients[0].view.data);
    return absl::OkStatus();
  };
  absl::StatusOr<StepResult> step = engine.Step(batch, options);
  if (!step.ok()) return step.status();
  *loss = step->loss;
  return gradient;
}

// Case L01: sums over microbatches of unequal size are divided once.
TEST(Step, LossIsASumOverMicrobatchesDividedOnce) {
  // Cut in two, the batch is {1, 2} and {3, 10}; the mean of means would be another number.
  for (int microbatches : {1, 2, 3, 4, 9}) {
    const auto engine = Make(SgdConfig(microbatches), ScaleModel(false));
    double loss = 0;
    EXPECT_THAT(GradientOfStep(*engine, ScaleBatch({1, 2, 3, 10}), &loss), IsOkAndHolds(4.0f))
        << microbatches;
    EXPECT_DOUBLE_EQ(loss, 4.0);
  }
}

// Case L12.
TEST(Step, HalfMeanSquareHasTheSameGradientForEverySplit) {
  for (int microbatches : {1, 2, 3, 8}) {
    const auto engine = Make(SgdConfig(microbatches), ScaleModel(true));
    double loss = 0;
    EXPECT_THAT(GradientOfStep(*engine, ScaleBatch({1, 2, 3, 4, 5, 6, 7, 8}), &loss), IsOkAndHolds(25.5f));
  }
}

// Case L05: a microbatch without counted targets.
TEST(Step, AMicrobatchOfIgnoredTargetsIsNoNan) {
  EngineConfig config = SgdConfig(2);
  const auto engine = Make(config, MakeGpt2(TinyGpt2()));
  Batch batch = Gpt2Batch(2, 1);
  absl::Span<int32_t> targets = batch.fields[1].array.values<int32_t>();
  for (int i = 0; i < 8; ++i) targets[i] = kIgnoredTarget;
  ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(batch));
  EXPECT_NEAR(step.loss, std::log(32.0), 0.1);
  EXPECT_TRUE(std::isfinite(step.grad_norm));
  EXPECT_EQ(step.tokens, 8);
  EXPECT_FALSE(step.skipped);
}

TEST(Step, WithoutAnyCountedTargetNothingMoves) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  const std::vector<float> before = Weights(*engine);
  Batch batch = Gpt2Batch(2, 1);
  for (int32_t& target : batch.fields[1].array.values<int32_t>()) target = kIgnoredTarget;
  ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(batch));
  EXPECT_TRUE(step.skipped);
  EXPECT_THAT(step.skip_reason, HasSubstr("no counted target"));
  EXPECT_EQ(step.loss, 0);
  EXPECT_EQ(step.updates, 0);
  EXPECT_EQ(Weights(*engine), before);
}

TEST(Step, ALossThatIsNotFiniteIsSkippedAndReported) {
  const auto engine = Make(SgdConfig(), ScaleModel(false));
  ASSERT_OK_AND_ASSIGN(const StepResult bad, engine->Step(ScaleBatch({1, INFINITY})));
  EXPECT_TRUE(bad.skipped);
  EXPECT_THAT(bad.skip_reason, HasSubstr("not finite"));
  EXPECT_EQ(Weights(*engine), std::vector<float>{1});
  ASSERT_OK_AND_ASSIGN(const StepResult good, engine->Step(ScaleBatch({1, 1})));
  EXPECT_EQ(good.step, 2);
  EXPECT_EQ(good.updates, 1);
  EXPECT_FLOAT_EQ(Weights(*engine)[0], 0.99f);
}

TEST(Step, ClipsByTheGlobalNorm) {
  EngineConfig config = SgdConfig();
  config.set_clip_norm(0.5);
  const auto engine = Make(config, ScaleModel(false));
  ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(ScaleBatch({4, 4})));
  EXPECT_FLOAT_EQ(step.grad_norm, 4);  // before clipping
  EXPECT_NEAR(Weights(*engine)[0], 1 - 0.01 * 0.5, 1e-7);
}

TEST(Step, ABadBatchIsRefusedByFieldSampleAndValue) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  Batch batch = Gpt2Batch(2, 1);
  batch.fields[0].array.values<int32_t>()[9] = 32;
  EXPECT_THAT(engine->Step(batch),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"tokens\""), HasSubstr("sample 1"), HasSubstr("32"))));
  batch = Gpt2Batch(2, 1);
  batch.fields[1].array.values<int32_t>()[0] = -1;
  EXPECT_THAT(engine->Step(batch), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"targets\"")));
  EXPECT_THAT(engine->Step(Gpt2Batch(2, 1, false)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lacks the field \"targets\"")));
  EXPECT_THAT(engine->Step(Batch()), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(engine->Step(Gpt2Batch(2, 1)), IsOk());
}

// Two loss terms over one weight w = 1: the sum of w a over samples, and that of w b over entries that count.
class TwoTermBlock : public Block {
 public:
  explicit TwoTermBlock(ModuleBuilder builder) : w_(builder.Parameter("w", {1}, Initializer::Constant(1))) {}
  Activations Forward(Context& context, const Activations&) const override {
    const auto term = [&](absl::string_view field) {
      const Tensor x = context.Input(field);
      return ops::Sum(ops::Multiply(ops::AddBroadcast(ops::Scale(x, 0), context.Use(w_)), x));
    };
    return {term("a"), term("b")};
  }
  BlockCost Cost(int64_t, int64_t) const override { return {}; }

 private:
  const ParameterId w_;
};

TEST(Step, EachLossTermIsDividedByItsOwnCount) {
  Model model;
  model.name = "two terms";
  model.blocks.push_back([](ModuleBuilder builder) -> absl::StatusOr<std::unique_ptr<Block>> {
    return std::make_unique<TwoTermBlock>(builder);
  });
  InputSpec labels;
  labels.name = "labels";
  model.inputs = {InputSpec{"a", DType::kF32}, InputSpec{"b", DType::kF32}, labels};
  model.losses = {LossTerm{"first", ""}, LossTerm{"second", "labels"}};
  Batch batch = ScaleBatch({1, 2, 3, 6});
  batch.fields[0].name = "a";
  batch.fields.push_back({"b", std::move(ScaleBatch({0, 0, 4, 0}).fields[0].array)});
  batch.fields.push_back(
      {"labels", *Array::FromValues<int32_t>({4, 1}, std::vector<int32_t>{-100, -100, 1, 1})});
  for (int microbatches : {1, 2, 4}) {
    const auto engine = Make(SgdConfig(microbatches), model);
    double loss = 0;
    EXPECT_THAT(GradientOfStep(*engine, batch, &loss), IsOkAndHolds(3.0f + 2.0f));
    EXPECT_EQ(loss, 5.0);
  }
  const auto engine = Make(SgdConfig(), model);
  ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(batch));
  EXPECT_THAT(step.losses, ElementsAre(std::make_pair("first", 3.0), std::make_pair("second", 2.0)));
  EXPECT_EQ(step.tokens, 4);
}

TEST(Step, AGradientThatIsNotFiniteIsSkippedThoughTheLossIsFinite) {
  const auto engine = Make(SgdConfig(), ScaleModel(true));
  float w = 1e-20f;
  ASSERT_THAT(engine->ImportWeights({{"w", Shape{1, 1}, BufferView{&w, 1, DType::kF32, Device()}}}), IsOk());
  ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(ScaleBatch({3e38f})));  // y x is too large
  EXPECT_TRUE(std::isfinite(step.loss));
  EXPECT_TRUE(step.skipped);
  EXPECT_EQ(step.skip_reason, "the gradients' norm is not finite");
  EXPECT_EQ(step.updates, 0);
  EXPECT_EQ(Weights(*engine), std::vector<float>{w});
}

TEST(Step, ASkippedOneMovesNeitherMomentsNorSchedule) {
  EngineConfig config = AdamWConfig();
  config.mutable_learning_rate()->set_warmup_steps(4);
  const auto skipping = Make(config, ScaleModel(false)), plain = Make(config, ScaleModel(false));
  const auto rate = [](Engine& engine, float x) {
    const absl::StatusOr<StepResult> step = engine.Step(ScaleBatch({x}));
    EXPECT_THAT(step, IsOk());
    return step->learning_rate;
  };
  EXPECT_DOUBLE_EQ(rate(*skipping, 2), 0.0025);
  EXPECT_DOUBLE_EQ(rate(*skipping, NAN), 0.005);
  EXPECT_DOUBLE_EQ(rate(*skipping, -3), 0.005);
  rate(*plain, 2);
  rate(*plain, -3);
  EXPECT_EQ(Weights(*skipping), Weights(*plain));
  EXPECT_EQ(skipping->step(), 3);
  EXPECT_EQ(plain->step(), 2);
}

TEST(Step, OnGradientsSeesThemUnclippedAndAveraged) {
  EngineConfig config = SgdConfig(2);
  config.set_clip_norm(0.5);
  const auto engine = Make(config, ScaleModel(false));
  int calls = 0;
  StepOptions options;
  options.on_gradients = [&](absl::Span<const NamedBuffer> gradients) {
    ++calls;
    EXPECT_EQ(gradients.size(), 1);
    EXPECT_EQ(gradients[0].name, "w");
    EXPECT_EQ(*static_cast<const float*>(gradients[0].view.data), 5);  // the mean of {4, 4, 6, 6}
    return absl::OkStatus();
  };
  ASSERT_THAT(engine->Step(ScaleBatch({4, 4, 6, 6}), options), IsOk());
  EXPECT_EQ(calls, 1);
  EXPECT_NEAR(Weights(*engine)[0], 1 - 0.01 * 0.5, 1e-7);
}

TEST(Step, ReportsItsNumbers) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(Gpt2Batch(3, 1)));
  EXPECT_EQ(step.step, 1);
  EXPECT_EQ(step.updates, 1);
  EXPECT_EQ(step.tokens, 24);
  EXPECT_EQ(step.learning_rate, 0.01);
  EXPECT_GT(step.forward, absl::ZeroDuration());
  EXPECT_GT(step.backward, absl::ZeroDuration());
  EXPECT_GT(step.update, absl::ZeroDuration());
  EXPECT_LE(step.forward + step.backward + step.update, step.duration);
}

// A GPT-2 with dropout under AdamW, one of whose steps a test disturbs; and what it would do undisturbed.
class DisturbedStep : public ::testing::Test {
 protected:
  // `disturb` is called in the second microbatch of the next step, in the middle of pass `when`.
  void Disturb(Pass when, std::function<absl::Status()> disturb) {
    when_ = when;
    disturb_ = std::move(disturb);
    passes_ = 0;
  }

  void SetUp() override {
    environment_.clock = &clock_;
    engine_ = Make(AdamWConfig(2),
                   WithHook(MakeGpt2(TinyGpt2(0.2)), 2,
                            [this](Pass pass) {
                              if (disturb_ == nullptr || pass != when_ || ++passes_ < 2) {
                                return absl::OkStatus();
                              }
                              return std::exchange(disturb_, nullptr)();
                            }),
                   environment_);
    undisturbed_ =
        Make(AdamWConfig(2), WithHook(MakeGpt2(TinyGpt2(0.2)), 2, [](Pass) { return absl::OkStatus(); }));
    for (int i : {1, 2}) ExpectEqualStep(i);
  }

  void ExpectEqualStep(int seed) {
    ASSERT_OK_AND_ASSIGN(const StepResult step, engine_->Step(Gpt2Batch(4, seed)));
    ASSERT_OK_AND_ASSIGN(const StepResult expected, undisturbed_->Step(Gpt2Batch(4, seed)));
    EXPECT_EQ(step.step, expected.step);
    EXPECT_EQ(step.updates, expected.updates);
    EXPECT_EQ(step.loss, expected.loss);
    EXPECT_EQ(step.grad_norm, expected.grad_norm);
  }

  // Bit for bit: weights now, and moments and random numbers by the steps that follow.
  void ExpectThatNothingHappened() {
    EXPECT_EQ(engine_->step(), undisturbed_->step());
    EXPECT_EQ(Weights(*engine_), Weights(*undisturbed_));
    EXPECT_EQ(engine_->total_memory().live_bytes, undisturbed_->total_memory().live_bytes);
    for (int seed : {3, 4}) ExpectEqualStep(seed);
    EXPECT_EQ(Weights(*engine_), Weights(*undisturbed_));
  }

  FakeClock clock_{absl::UnixEpoch()};
  Environment environment_;
  std::unique_ptr<Engine> engine_, undisturbed_;

 private:
  Pass when_ = Pass::kForward;
  std::function<absl::Status()> disturb_;
  int passes_ = 0;
};

TEST_F(DisturbedStep, CancelFromAnotherThreadLeavesTheStateOfBefore) {
  for (const Pass when : {Pass::kForward, Pass::kBackward}) {
    Disturb(when, [this] {
      std::thread([this] { engine_->Cancel(absl::CancelledError("the host is busy")); }).join();
      return absl::OkStatus();
    });
    EXPECT_THAT(engine_->Step(Gpt2Batch(4, 9)),
                StatusIs(absl::StatusCode::kCancelled, HasSubstr("the host is busy")));
    ExpectThatNothingHappened();
  }
}

TEST_F(DisturbedStep, ADeadlineThatPassesWithinItLeavesTheStateOfBefore) {
  for (const Pass when : {Pass::kForward, Pass::kBackward}) {
    Disturb(when, [this] {
      clock_.Advance(absl::Seconds(2));
      return absl::OkStatus();
    });
    StepOptions options;
    options.deadline = clock_.Now() + absl::Seconds(1);
    EXPECT_THAT(engine_->Step(Gpt2Batch(4, 9), options),
                StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("deadline")));
    ExpectThatNothingHappened();
  }
}

TEST_F(DisturbedStep, AnErrorOfABlockLeavesTheStateOfBefore) {
  for (const Pass when : {Pass::kForward, Pass::kBackward}) {
    Disturb(when, [] { return absl::DataLossError("mine"); });
    EXPECT_THAT(engine_->Step(Gpt2Batch(4, 9)), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("mine")));
    ExpectThatNothingHappened();
  }
}

TEST_F(DisturbedStep, AnErrorOrCancellationInOnGradientsLeavesTheStateOfBefore) {
  StepOptions options;
  options.on_gradients = [](absl::Span<const NamedBuffer>) { return absl::AbortedError("enough"); };
  EXPECT_THAT(engine_->Step(Gpt2Batch(4, 9), options), StatusIs(absl::StatusCode::kAborted, "enough"));
  options.on_gradients = [this](absl::Span<const NamedBuffer>) {
    engine_->Cancel(absl::CancelledError("late, but in time"));
    return absl::OkStatus();
  };
  EXPECT_THAT(engine_->Step(Gpt2Batch(4, 9), options), StatusIs(absl::StatusCode::kCancelled));
  ExpectThatNothingHappened();
}

TEST_F(DisturbedStep, ABatchThatIsRefusedLeavesTheStateOfBefore) {
  Batch batch = Gpt2Batch(4, 9);
  batch.fields[0].array.values<int32_t>()[9] = 32;
  EXPECT_THAT(engine_->Step(batch), StatusIs(absl::StatusCode::kInvalidArgument));
  ExpectThatNothingHappened();
}

TEST_F(DisturbedStep, APastDeadlineStartsNothing) {
  Disturb(Pass::kForward, [] { return absl::InternalError("it ran"); });
  StepOptions options;
  options.deadline = clock_.Now();
  EXPECT_THAT(engine_->Step(Gpt2Batch(4, 9), options), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

}  // namespace
}  // namespace armature
