// The forward alone: Evaluate and Predict.
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/engine/engine.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

TEST(Evaluate, WeighsEveryTargetTheSame) {
  const auto engine = Make(SgdConfig(), ScaleModel(false));
  IndexedSource source(2, [](int64_t i) { return i == 0 ? ScaleBatch({1, 2, 3}) : ScaleBatch({10}); });
  ASSERT_OK_AND_ASSIGN(const EvalResult result, engine->Evaluate(source));
  EXPECT_DOUBLE_EQ(result.loss, 4.0);
  EXPECT_EQ(result.tokens, 4);
  EXPECT_EQ(result.batches, 2);
  EXPECT_THAT(engine->Evaluate(source), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no batch")));
}

TEST(Evaluate, MovesNothingAndDropsNothingOut) {
  const auto engine = Make(AdamWConfig(2), MakeGpt2(TinyGpt2(0.5)));
  const auto twin = Make(AdamWConfig(2), MakeGpt2(TinyGpt2(0.5)));
  const auto evaluate = [&] {
    IndexedSource source(2, [](int64_t i) { return Gpt2Batch(3, static_cast<int>(i)); });
    const absl::StatusOr<EvalResult> result = engine->Evaluate(source);
    EXPECT_THAT(result, IsOk());
    return result->loss;
  };
  EXPECT_EQ(evaluate(), evaluate());
  EXPECT_EQ(engine->step(), 0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(Gpt2Batch(3, i)));
    ASSERT_OK_AND_ASSIGN(const StepResult expected, twin->Step(Gpt2Batch(3, i)));
    EXPECT_EQ(step.loss, expected.loss);
    evaluate();
  }
  EXPECT_EQ(Weights(*engine), Weights(*twin));
}

TEST(Evaluate, ErrorsOfSourceAndBatchComeOut) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  IndexedSource source(1, [](int64_t) { return Gpt2Batch(2, 1, /*with_targets=*/false); });
  EXPECT_THAT(engine->Evaluate(source),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"targets\"")));
  class Broken : public BatchSource {
   public:
    absl::StatusOr<absl::optional<Batch>> Next() override { return absl::DataLossError("torn"); }
    std::string Position() const override { return ""; }
    absl::Status Restore(absl::string_view) override { return absl::OkStatus(); }
  };
  Broken broken;
  EXPECT_THAT(engine->Evaluate(broken), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("torn")));
}

TEST(Evaluate, CanBeCancelled) {
  std::unique_ptr<Engine> engine;
  engine = Make(SgdConfig(), WithHook(MakeGpt2(TinyGpt2()), 1, [&](HookBlock::Pass) {
                  engine->Cancel(absl::CancelledError("enough"));
                  return absl::OkStatus();
                }));
  IndexedSource source(IndexedSource::kEndless, [](int64_t) { return Gpt2Batch(2, 1); });
  EXPECT_THAT(engine->Evaluate(source), StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough")));
  EXPECT_EQ(source.next(), 1);
}

TEST(Predict, GivesLogitsWithoutDropout) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2(0.5)));
  ASSERT_OK_AND_ASSIGN(const Array logits, engine->Predict(Gpt2Batch(3, 1, false)));
  EXPECT_EQ(logits.shape(), (Shape{3, 8, 32}));
  ASSERT_OK_AND_ASSIGN(const Array again, engine->Predict(Gpt2Batch(3, 1, false)));
  EXPECT_EQ(logits.bytes(), again.bytes());  // no dropout
}

TEST(Predict, DoesNotReadWhatOnlyTheLossNeeds) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  ASSERT_OK_AND_ASSIGN(const Array without, engine->Predict(Gpt2Batch(3, 1, /*with_targets=*/false)));
  ASSERT_OK_AND_ASSIGN(const Array with, engine->Predict(Gpt2Batch(3, 1, /*with_targets=*/true)));
  EXPECT_EQ(with.shape(), without.shape());
  EXPECT_EQ(with.bytes(), without.bytes());
}

TEST(Predict, ASequenceThatTheModelHasNoPlaceForIsRefused) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  Batch batch;
  batch.fields.push_back({"tokens", *Array::Create({1, 9}, DType::kI32)});  // of 8 positions
  EXPECT_FALSE(engine->Predict(batch).ok());
  EXPECT_THAT(engine->Predict(Gpt2Batch(1, 1)), IsOk());
}

}  // namespace
}  // namespace armature
