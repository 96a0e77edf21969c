#include "armature/engine/engine.h"

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/engine/engine_test_models.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

EngineConfig SgdConfig(int microbatches = 1) {
  EngineConfig config;
  config.mutable_optimizer()->mutable_sgd();
  config.mutable_learning_rate()->set_peak(0.01);
  config.set_microbatches(microbatches);
  config.set_threads(1);
  return config;
}

std::unique_ptr<Engine> Make(const EngineConfig& config, absl::StatusOr<Model> model) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(config, *std::move(model));
  EXPECT_THAT(engine, IsOk());
  return engine.ok() ? *std::move(engine) : nullptr;
}

std::vector<float> Weights(const Engine& engine) {
  std::vector<float> all;
  EXPECT_THAT(engine.ExportWeights([&](const NamedBuffer& weight) {
    const float* values = static_cast<const float*>(weight.view.data);
    all.insert(all.end(), values, values + weight.view.count);
    return absl::OkStatus();
  }),
              IsOk());
  return all;
}

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

TEST(Step, DeadlineAndCancellationLeaveTheStateOfBefore) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  ASSERT_THAT(engine->Step(Gpt2Batch(2, 1)), IsOk());
  const std::vector<float> before = Weights(*engine);
  StepOptions late;
  late.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_THAT(engine->Step(Gpt2Batch(2, 2), late), StatusIs(absl::StatusCode::kDeadlineExceeded));
  StepOptions cancelled;
  cancelled.on_gradients = [&](absl::Span<const NamedBuffer>) { return absl::AbortedError("enough"); };
  EXPECT_THAT(engine->Step(Gpt2Batch(2, 2), cancelled),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
  EXPECT_EQ(Weights(*engine), before);
  EXPECT_EQ(engine->step(), 1);
  EXPECT_THAT(engine->Step(Gpt2Batch(2, 2)), IsOk());
}

// A source that never ends and that the test can wait on.
class EndlessSource : public BatchSource {
 public:
  absl::StatusOr<absl::optional<Batch>> Next() override {
    ++given;
    return absl::optional<Batch>(Gpt2Batch(2, given));
  }
  std::string Position() const override { return std::to_string(given); }
  absl::Status Restore(absl::string_view) override { return absl::UnimplementedError("endless"); }
  std::atomic<int> given{0};
};

TEST(Run, CancelFromAnotherThreadEndsItWithTheReason) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  EndlessSource source;
  absl::StatusOr<RunResult> result;
  std::thread runner([&] { result = engine->Run(source); });
  while (source.given < 5) std::this_thread::yield();
  EXPECT_THAT(engine->Step(Gpt2Batch(1, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another call")));
  engine->Cancel(absl::CancelledError("the host is busy"));
  runner.join();
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled, HasSubstr("the host is busy")));
  EXPECT_THAT(engine->Step(Gpt2Batch(1, 1)), IsOk());
}

TEST(Run, RequestStopEndsItAfterTheStep) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  EndlessSource source;
  RunOptions options;
  options.on_step = [&](const StepResult& step) {
    if (step.step == 3) engine->RequestStop();
    return absl::OkStatus();
  };
  ASSERT_OK_AND_ASSIGN(const RunResult result, engine->Run(source, options));
  EXPECT_EQ(result.end, RunResult::End::kStopRequested);
  EXPECT_EQ(result.steps, 3);
}

TEST(Run, AnErrorOfTheCallbackEndsItAndComesOut) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  EndlessSource source;
  RunOptions options;
  options.on_step = [](const StepResult&) { return absl::DataLossError("mine"); };
  EXPECT_THAT(engine->Run(source, options), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("mine")));
  EXPECT_EQ(engine->step(), 1);
}

TEST(Engine, DestroyedWhileAnotherThreadRunsIt) {
  auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  EndlessSource source;
  absl::StatusOr<RunResult> result;
  std::thread runner([&, raw = engine.get()] { result = raw->Run(source); });
  while (source.given < 3) std::this_thread::yield();
  engine.reset();
  runner.join();
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled, HasSubstr("destroyed")));
}

TEST(Engine, RecomputationIsBitEqualWithDropoutAndTakesLessMemory) {
  EngineConfig config = SgdConfig(2);
  Gpt2Config gpt2 = TinyGpt2(0.2);
  gpt2.layers = 6;
  const auto plain = Make(config, MakeGpt2(gpt2));
  config.set_recompute(EngineConfig::FULL);
  const auto recomputed = Make(config, MakeGpt2(gpt2));
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const StepResult a, plain->Step(Gpt2Batch(4, i)));
    ASSERT_OK_AND_ASSIGN(const StepResult b, recomputed->Step(Gpt2Batch(4, i)));
    EXPECT_EQ(a.loss, b.loss);
  }
  EXPECT_EQ(Weights(*plain), Weights(*recomputed));
  EXPECT_LT(recomputed->memory(MemoryCategory::kActivations).peak_bytes,
            plain->memory(MemoryCategory::kActivations).peak_bytes * 6 / 10);
}

TEST(Engine, DropoutDoesNotDependOnTheMicrobatches) {
  std::vector<double> losses;
  for (int microbatches : {1, 2, 4}) {
    const auto engine = Make(SgdConfig(microbatches), MakeGpt2(TinyGpt2(0.3)));
    ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(Gpt2Batch(4, 1)));
    losses.push_back(step.loss);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-6);
  EXPECT_NEAR(losses[0], losses[2], 1e-6);
}

TEST(Engine, TwoInOneProcessGiveTheBitsOfEachAlone) {
  const auto train = [](int seed, std::vector<float>* weights) {
    EngineConfig config = SgdConfig();
    config.set_seed(seed);
    const auto engine = Make(config, MakeGpt2(TinyGpt2(0.1)));
    for (int i = 0; i < 10; ++i) EXPECT_THAT(engine->Step(Gpt2Batch(2, i)), IsOk());
    *weights = Weights(*engine);
  };
  std::vector<float> alone[2], together[2];
  for (int i : {0, 1}) train(i, &alone[i]);
  std::thread other([&] { train(1, &together[1]); });
  train(0, &together[0]);
  other.join();
  EXPECT_EQ(alone[0], together[0]);
  EXPECT_EQ(alone[1], together[1]);
  EXPECT_NE(alone[0], alone[1]);
}

TEST(Engine, LeaksNoMemoryFromStepToStep) {
  const auto engine = Make(SgdConfig(2), MakeGpt2(TinyGpt2(0.1)));
  ASSERT_THAT(engine->Step(Gpt2Batch(4, 1)), IsOk());
  const int64_t live = engine->total_memory().live_bytes;
  for (int i = 0; i < 5; ++i) ASSERT_THAT(engine->Step(Gpt2Batch(4, i)), IsOk());
  EXPECT_EQ(engine->total_memory().live_bytes, live);
  EXPECT_EQ(engine->memory(MemoryCategory::kActivations).live_bytes, 0);
}

TEST(Engine, MemoryLimitIsResourceExhaustedAndTheEngineGoesOn) {
  EngineConfig config = SgdConfig();
  config.set_memory_limit_bytes(400000);
  const auto engine = Make(config, MakeGpt2(TinyGpt2()));
  ASSERT_NE(engine, nullptr);
  EXPECT_THAT(engine->Step(Gpt2Batch(200, 1)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("limit of 400000")));
  EXPECT_THAT(engine->Step(Gpt2Batch(2, 1)), IsOk());
}

TEST(Engine, EvaluateWeighsEveryTargetTheSame) {
  const auto engine = Make(SgdConfig(), ScaleModel(false));
  class TwoBatches : public BatchSource {
   public:
    absl::StatusOr<absl::optional<Batch>> Next() override {
      ++given_;
      if (given_ > 2) return absl::optional<Batch>();
      return absl::optional<Batch>(given_ == 1 ? ScaleBatch({1, 2, 3}) : ScaleBatch({10}));
    }
    std::string Position() const override { return ""; }
    absl::Status Restore(absl::string_view) override { return absl::OkStatus(); }

   private:
    int given_ = 0;
  };
  TwoBatches source;
  ASSERT_OK_AND_ASSIGN(const EvalResult result, engine->Evaluate(source));
  EXPECT_DOUBLE_EQ(result.loss, 4.0);
  EXPECT_EQ(result.tokens, 4);
  EXPECT_THAT(engine->Evaluate(source), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no batch")));
}

TEST(Engine, PredictGivesLogitsWithoutTargets) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2(0.5)));
  ASSERT_OK_AND_ASSIGN(const Array logits, engine->Predict(Gpt2Batch(3, 1, false)));
  EXPECT_EQ(logits.shape(), (Shape{3, 8, 32}));
  ASSERT_OK_AND_ASSIGN(const Array again, engine->Predict(Gpt2Batch(3, 1, false)));
  EXPECT_EQ(logits.bytes(), again.bytes());  // no dropout
}

TEST(Engine, ImportNamesWhatDoesNotFit) {
  const auto engine = Make(SgdConfig(), ScaleModel(false));
  float value = 3;
  NamedBuffer w{"w", Shape{1, 1}, BufferView{&value, 1, DType::kF32, Device{}}};
  EXPECT_THAT(engine->ImportWeights({w}), IsOk());
  EXPECT_EQ(Weights(*engine), std::vector<float>{3});
  EXPECT_THAT(engine->ImportWeights({}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("w is missing")));
  NamedBuffer other = w;
  other.name = "v";
  EXPECT_THAT(engine->ImportWeights({w, other}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no weight v")));
  w.shape = Shape{1};
  EXPECT_THAT(engine->ImportWeights({w}),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("[1]"), HasSubstr("[1, 1]"))));
}

}  // namespace
}  // namespace armature
