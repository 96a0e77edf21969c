// Data ranks, sharding stages and microbatches against one rank: the same training in every layout.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/engine/engine.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"
#include "armature/engine/engine_test_training.h"

namespace armature {
namespace {

using ::testing::HasSubstr;
using Pass = HookBlock::Pass;

TEST(DataParallel, GivesTheLossesAndWeightsOfOneRankWithDropout) {
  EngineConfig adamw = AdamWConfig();
  adamw.set_clip_norm(0.5);
  const Trained expected = Train(adamw, 6, 7, 0.2);
  for (const int data : {2, 3}) {
    for (const int sharding : {0, 1, 2, 3}) {
      for (const int microbatches : {1, 2}) {
        SCOPED_TRACE(absl::StrCat("data ", data, " stage ", sharding, " microbatches ", microbatches));
        const Trained trained = Train(Layout(adamw, data, sharding, microbatches), 6, 7, 0.2);
        ASSERT_EQ(trained.losses.size(), expected.losses.size());
        for (size_t i = 0; i < expected.losses.size(); ++i) {
          EXPECT_NEAR(trained.losses[i], expected.losses[i], 2e-6);
          EXPECT_NEAR(trained.norms[i], expected.norms[i], 5e-6 * expected.norms[i]);
        }
        EXPECT_LT(Distance(trained.weights, expected.weights), 1e-5);
      }
    }
  }
}

TEST(DataParallel, MoreRanksThanSamplesIsFine) {
  const Trained expected = Train(AdamWConfig(), 3, 2);
  for (const int sharding : {0, 1, 2, 3}) {
    const Trained trained = Train(Layout(AdamWConfig(), 4, sharding, 2), 3, 2);
    EXPECT_LT(Distance(trained.weights, expected.weights), 1e-5) << "stage " << sharding;
  }
}

class Reproducible : public ::testing::TestWithParam<int> {};

TEST_P(Reproducible, GivesTheSameBitsForEveryDataSizeAndSplit) {
  EngineConfig config = AdamWConfig();
  config.set_reproducible(true);
  config.set_clip_norm(0.5);
  const Trained expected = Train(config, 50, 13, 0.1);
  ASSERT_FALSE(expected.weights.empty());
  for (const int data : {1, 2, 4, 8}) {
    for (const int microbatches : {1, 2}) {
      const Trained trained = Train(Layout(config, data, GetParam(), microbatches), 50, 13, 0.1);
      EXPECT_EQ(trained.weights, expected.weights) << "data " << data;
      EXPECT_EQ(trained.norms, expected.norms) << "data " << data;
    }
  }
}

TEST_P(Reproducible, AnotherNumberOfThreadsChangesNoBit) {
  EngineConfig config = AdamWConfig();
  config.set_reproducible(true);
  const Trained expected = Train(Layout(config, 2, GetParam()), 5, 8);
  config.set_threads(3);
  EXPECT_EQ(Train(Layout(config, 2, GetParam()), 5, 8).weights, expected.weights);
}

INSTANTIATE_TEST_SUITE_P(Stages, Reproducible, ::testing::Values(0, 1, 2, 3));

TEST(DataParallel, OverlapBucketSizesAndRecomputationChangeNoBit) {
  for (const int sharding : {0, 1, 2, 3}) {
    EngineConfig config = Layout(AdamWConfig(), 3, sharding, 2);
    const Trained expected = Train(config, 4, 12);
    for (const int64_t bucket_bytes : {64, 4096}) {
      config.mutable_parallel()->set_bucket_bytes(bucket_bytes);
      EXPECT_EQ(Train(config, 4, 12).weights, expected.weights) << bucket_bytes;
      config.mutable_parallel()->set_no_overlap(true);
      EXPECT_EQ(Train(config, 4, 12).weights, expected.weights) << bucket_bytes;
      config.set_recompute(EngineConfig::FULL);
      EXPECT_EQ(Train(config, 4, 12).weights, expected.weights) << bucket_bytes;
      config.set_recompute(EngineConfig::NONE);
      config.mutable_parallel()->set_no_overlap(false);
    }
  }
}

// A sample is one counted entry; y = w x.
double GradientOf(const EngineConfig& config, bool squared, const std::vector<float>& x) {
  const std::unique_ptr<Engine> engine = Make(config, ScaleModel(squared));
  const absl::StatusOr<StepResult> step = engine->Step(ScaleBatch(x));
  EXPECT_THAT(step, IsOk());
  return step.ok() ? step->grad_norm : 0;
}

TEST(DataParallel, TheLossIsAMeanOverAllTargetsAndNeverOfMeans) {
  for (const int sharding : {0, 1, 2, 3}) {
    for (const int data : {1, 2, 4}) {
      for (const int microbatches : {1, 2, 4}) {
        const EngineConfig config = Layout(SgdConfig(), data, sharding, microbatches);
        EXPECT_NEAR(GradientOf(config, false, {1, 2, 3, 10}), 4.0, 1e-6);
        EXPECT_NEAR(GradientOf(config, false, {1, 1, 1, 1, 1, 7}), 2.0, 1e-6);
        EXPECT_NEAR(GradientOf(config, true, {1, 2, 3, 4, 5, 6, 7, 8}), 25.5, 1e-5);
      }
    }
  }
}

TEST(DataParallel, TokensWeighTheSameOnWhateverRankTheyAre) {
  // 4 entries of 1 in one sample's place and 60 of 3 in the others.
  std::vector<float> x(4, 1.0f);
  x.resize(64, 3.0f);
  for (const int sharding : {0, 1, 2, 3}) {
    const std::unique_ptr<Engine> engine = Make(Layout(SgdConfig(), 2, sharding), ScaleModel(false));
    ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(ScaleBatch(x)));
    EXPECT_NEAR(step.loss, 2.875, 1e-6);
  }
}

// Uses its first parameter for every sample, its second only where a sample is positive.
class SometimesBlock : public Block {
 public:
  explicit SometimesBlock(ModuleBuilder builder)
      : always_(builder.Parameter("always", {1}, Initializer::Constant(1))),
        sometimes_(builder.Parameter("sometimes", {1}, Initializer::Constant(1))) {}
  Activations Forward(Context& context, const Activations&) const override {
    const Tensor x = context.Input("x");
    float first = 0;
    if (x.num_elements() > 0 && !x.Slice(0, 1).ToHost(&first).ok()) return {};
    Tensor y = ops::Multiply(ops::AddBroadcast(ops::Scale(x, 0), context.Use(always_)), x);
    if (first > 0) {
      // Twice: its gradient is the sum of both uses, once.
      const Tensor w =
          ops::Add(ops::Scale(context.Use(sometimes_), 0.25), ops::Scale(context.Use(sometimes_), 0.75));
      y = ops::Add(y, ops::Multiply(ops::AddBroadcast(ops::Scale(x, 0), w), x));
    }
    return {ops::Sum(y)};
  }
  BlockCost Cost(int64_t, int64_t) const override { return {}; }

 private:
  const ParameterId always_, sometimes_;
};

TEST(DataParallel, AParameterUnusedOnOneRankGetsTheOthersGradient) {
  Model model = ScaleModel(false);
  model.blocks[0] = [](ModuleBuilder builder) -> absl::StatusOr<std::unique_ptr<Block>> {
    return std::make_unique<SometimesBlock>(builder);
  };
  for (const int sharding : {0, 1, 2, 3}) {
    const std::unique_ptr<Engine> engine = Make(Layout(SgdConfig(), 2, sharding), model);
    for (int i = 0; i < 3; ++i) {
      std::vector<float> gradients;
      StepOptions options;
      options.on_gradients = [&](absl::Span<const NamedBuffer> all) {
        for (const NamedBuffer& one : all) gradients.push_back(*static_cast<const float*>(one.view.data));
        return absl::OkStatus();
      };
      ASSERT_THAT(engine->Step(ScaleBatch({3, -1}), options), IsOk());
      EXPECT_THAT(gradients, ::testing::ElementsAre(1.0f, 1.5f)) << "stage " << sharding;
    }
  }
}

TEST(DataParallel, EvaluatesAndPredictsEachSampleOnce) {
  const std::unique_ptr<Engine> one = Make(AdamWConfig(), MakeGpt2(TinyGpt2()));
  IndexedSource batches(2, [](int64_t i) { return Gpt2Batch(5, static_cast<int32_t>(i)); });
  ASSERT_OK_AND_ASSIGN(const EvalResult expected, one->Evaluate(batches));
  ASSERT_OK_AND_ASSIGN(const Array predictions, one->Predict(Gpt2Batch(5, 3, false)));
  for (const int sharding : {0, 3}) {
    for (const int data : {2, 8}) {
      const std::unique_ptr<Engine> many = Make(Layout(AdamWConfig(), data, sharding), MakeGpt2(TinyGpt2()));
      IndexedSource same(2, [](int64_t i) { return Gpt2Batch(5, static_cast<int32_t>(i)); });
      ASSERT_OK_AND_ASSIGN(const EvalResult result, many->Evaluate(same));
      EXPECT_NEAR(result.loss, expected.loss, 2e-6);
      EXPECT_EQ(result.tokens, expected.tokens);
      ASSERT_OK_AND_ASSIGN(const Array same_predictions, many->Predict(Gpt2Batch(5, 3, false)));
      ASSERT_EQ(same_predictions.shape(), predictions.shape());
      for (size_t i = 0; i < predictions.values<float>().size(); ++i) {
        ASSERT_NEAR(same_predictions.values<float>()[i], predictions.values<float>()[i], 1e-5);
      }
    }
  }
}

TEST(DataParallel, ACheckpointOfAnyLayoutLoadsIntoAnyOther) {
  for (const int from : {0, 1, 2, 3}) {
    MemoryFileSystem files;
    Environment environment;
    environment.files = &files;
    EngineConfig config = AdamWConfig();
    config.mutable_checkpoint()->set_directory("/run");
    std::unique_ptr<Engine> saver = Make(Layout(config, 1 + from, from), MakeGpt2(TinyGpt2()), environment);
    Train(*saver, 2, 8);
    ASSERT_OK_AND_ASSIGN(const SaveHandle save, saver->Save());
    ASSERT_THAT(save.Wait(), IsOk());
    const std::vector<float> saved = Weights(*saver);
    ASSERT_OK_AND_ASSIGN(const StepResult next, saver->Step(Gpt2Batch(8, 9)));
    saver = nullptr;
    config.mutable_checkpoint()->set_read_only(true);
    for (const int to : {0, 1, 2, 3}) {
      const std::unique_ptr<Engine> loader =
          Make(Layout(config, 4 - to, to), MakeGpt2(TinyGpt2()), environment);
      ASSERT_THAT(loader->Restore(), IsOk());
      EXPECT_EQ(Weights(*loader), saved) << from << " to " << to;
      ASSERT_OK_AND_ASSIGN(const StepResult step, loader->Step(Gpt2Batch(8, 9)));
      EXPECT_NEAR(step.loss, next.loss, 1e-6);
      EXPECT_NEAR(step.grad_norm, next.grad_norm, 5e-6 * next.grad_norm);
    }
  }
}

TEST(DataParallel, AnErrorOnOneRankEndsTheStepOnAllAndTheEngineGoesOn) {
  for (const int sharding : {0, 1, 2, 3}) {
    std::atomic<int> countdown{-1};
    const auto hook = [&countdown](Pass pass) -> absl::Status {
      if (pass == Pass::kBackward && countdown.fetch_sub(1) == 0) return absl::DataLossError("a bad block");
      return absl::OkStatus();
    };
    const std::unique_ptr<Engine> engine =
        Make(Layout(AdamWConfig(), 3, sharding, 2), WithHook(MakeGpt2(TinyGpt2()), 2, hook));
    const std::unique_ptr<Engine> undisturbed =
        Make(Layout(AdamWConfig(), 3, sharding, 2),
             WithHook(MakeGpt2(TinyGpt2()), 2, [](Pass) { return absl::OkStatus(); }));
    for (int i = 0; i < 4; ++i) {
      countdown = i;  // on one rank, in its first or second microbatch
      EXPECT_THAT(engine->Step(Gpt2Batch(12, 5)),
                  StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a bad block")));
      countdown = -1;
      EXPECT_THAT(engine->Step(Gpt2Batch(12, i)), IsOk());
      EXPECT_THAT(undisturbed->Step(Gpt2Batch(12, i)), IsOk());
      EXPECT_EQ(Weights(*engine), Weights(*undisturbed)) << "stage " << sharding;
    }
  }
}

TEST(DataParallel, ImportsWeightsIntoEveryLayout) {
  const std::unique_ptr<Engine> one = Make(AdamWConfig(), MakeGpt2(TinyGpt2()));
  Train(*one, 2, 4);
  for (const int sharding : {0, 1, 2, 3}) {
    const std::unique_ptr<Engine> many = Make(Layout(AdamWConfig(), 3, sharding), MakeGpt2(TinyGpt2()));
    std::vector<std::vector<float>> memory;
    std::vector<NamedBuffer> weights;
    ASSERT_THAT(one->ExportWeights([&](const NamedBuffer& weight) {
      const float* values = static_cast<const float*>(weight.view.data);
      memory.emplace_back(values, values + weight.view.count);
      weights.push_back(weight);
      weights.back().view.data = memory.back().data();
      return absl::OkStatus();
    }),
                IsOk());
    ASSERT_THAT(many->ImportWeights(weights), IsOk());
    EXPECT_EQ(Weights(*many), Weights(*one)) << "stage " << sharding;
    EXPECT_NEAR(many->Step(Gpt2Batch(6, 1))->loss, one->Step(Gpt2Batch(6, 1))->loss, 1.0);
  }
}

}  // namespace
}  // namespace armature
