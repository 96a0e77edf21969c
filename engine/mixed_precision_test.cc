// Half precision, loss scaling, norms and skipped steps, over ranks and sharding stages.
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/status_matchers.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"
#include "armature/engine/engine_test_training.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

// The sum over samples of (x, w), with x [samples, n] and weights of 1; and of (12, v) with v [m] on every
// rank of the tensor axis, which share out w.
class DotBlock : public Block {
 public:
  DotBlock(ModuleBuilder builder, int64_t n, int64_t m, float v_gradient)
      : w_(builder.Parameter("w", {n}, Initializer::Constant(1), builder.Split(0))),
        v_(builder.Parameter("v", {m}, Initializer::Constant(1))),
        first_(builder.tensor_rank() * n / builder.tensor_size()),
        v_gradient_(v_gradient) {}

  Activations Forward(Context& context, const Activations&) const override {
    const Tensor w = context.Use(w_), v = context.Use(v_), x = context.Input("x");
    if (!w.ok() || !x.ok()) return {ops::Add(w, x)};
    const int64_t n = w.num_elements(), all = x.shape().dim(1), samples = x.shape().dim(0);
    std::vector<float> values(x.num_elements());
    if (!x.ToHost(values.data()).ok()) return {};
    Tensor sum = ops::Scale(ops::Sum(v), v_gradient_ * samples);
    for (int64_t s = 0; s < samples; ++s) {
      const Tensor own = Tensor::FromHost<float>(context.backend(), {n},
                                                 absl::MakeSpan(&values[s * all + first_], n), DType::kF32);
      sum = ops::Add(sum, ops::Sum(ops::Multiply(w, ops::Cast(own, w.dtype()))));
    }
    return {sum};
  }
  BlockCost Cost(int64_t, int64_t) const override { return {}; }

 private:
  const ParameterId w_, v_;
  const int64_t first_;
  const float v_gradient_;
};

Model DotModel(int64_t n, int64_t m = 1, float v_gradient = 0) {
  Model model = ScaleModel(false);
  model.blocks[0] = [=](ModuleBuilder builder) -> absl::StatusOr<std::unique_ptr<Block>> {
    return std::make_unique<DotBlock>(builder, n, m, v_gradient);
  };
  return model;
}

Batch Samples(const std::vector<std::vector<float>>& samples) {
  std::vector<float> values;
  for (const std::vector<float>& sample : samples) values.insert(values.end(), sample.begin(), sample.end());
  Batch batch;
  const Shape shape = {static_cast<int64_t>(samples.size()), static_cast<int64_t>(samples[0].size())};
  batch.fields.push_back({"x", *Array::FromValues<float>(shape, values)});
  return batch;
}

class EachStage : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Stages, EachStage, ::testing::Values(0, 1, 2, 3));

TEST_P(EachStage, OverflowOnOneRankIsSkippedOnAllAndHalvesTheScale) {
  std::atomic<bool> overflow{false};
  const auto factor = [&overflow](int64_t first, int64_t) { return overflow && first > 0 ? HUGE_VAL : 1; };
  EngineConfig config = Layout(AdamWConfig(), 2, GetParam());
  config.set_precision(EngineConfig::F16);
  config.mutable_loss_scale()->set_initial(65536);
  config.mutable_loss_scale()->set_growth_interval(2);
  config.mutable_learning_rate()->set_warmup_steps(100);
  const std::unique_ptr<Engine> engine =
      Make(config, WithGradientFactor(MakeGpt2(TinyGpt2()), /*block=*/2, factor));
  const double scales[] = {65536, 65536, 32768, 32768, 65536};
  for (int i = 0; i < 5; ++i) {
    overflow = i == 1;
    const std::vector<float> before = Weights(*engine);
    ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(Gpt2Batch(4, i)));
    EXPECT_EQ(step.loss_scale, scales[i]) << i;
    EXPECT_EQ(step.skipped, i == 1) << i;
    EXPECT_EQ(step.updates, i == 0 ? 1 : i) << i;
    EXPECT_EQ(Weights(*engine) == before, i == 1) << i;
    EXPECT_NEAR(step.learning_rate, 0.01 * std::max(step.updates + step.skipped, int64_t{1}) / 100, 1e-12);
  }
}

TEST_P(EachStage, ANanInOneMicrobatchSkipsTheStepOnAllRanks) {
  std::atomic<int64_t> bad_sample{-1};
  const auto factor = [&bad_sample](int64_t first, int64_t samples) {
    return bad_sample >= first && bad_sample < first + samples ? std::nan("") : 1.0;
  };
  for (const bool reproducible : {false, true}) {
    EngineConfig config = Layout(AdamWConfig(), 2, GetParam(), 2);
    config.set_reproducible(reproducible);
    const auto model = [&] { return WithGradientFactor(MakeGpt2(TinyGpt2()), /*block=*/2, factor); };
    const std::unique_ptr<Engine> engine = Make(config, model()), undisturbed = Make(config, model());
    for (int64_t bad = 0; bad < 8; bad += 3) {
      const std::vector<float> before = Weights(*engine);
      bad_sample = bad;
      ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(Gpt2Batch(8, 1)));
      EXPECT_TRUE(step.skipped);
      EXPECT_THAT(step.skip_reason, HasSubstr("norm is not finite"));
      EXPECT_EQ(Weights(*engine), before);
      bad_sample = -1;
      EXPECT_THAT(engine->Step(Gpt2Batch(8, static_cast<int>(bad))), IsOk());
      EXPECT_THAT(undisturbed->Step(Gpt2Batch(8, static_cast<int>(bad))), IsOk());
      EXPECT_EQ(Weights(*engine), Weights(*undisturbed));
    }
  }
}

TEST_P(EachStage, ARankWithoutACountedTargetIsSafe) {
  Batch batch = Gpt2Batch(4, 3);
  std::vector<int32_t> targets(batch.fields[1].array.values<int32_t>().begin(),
                               batch.fields[1].array.values<int32_t>().end());
  std::fill(targets.begin() + 16, targets.end(), kIgnoredTarget);  // the second rank's samples
  batch.fields[1].array = *Array::FromValues<int32_t>({4, 8}, targets);
  const std::unique_ptr<Engine> one = Make(AdamWConfig(), MakeGpt2(TinyGpt2()));
  const std::unique_ptr<Engine> two = Make(Layout(AdamWConfig(), 2, GetParam()), MakeGpt2(TinyGpt2()));
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const StepResult expected, one->Step(batch));
    ASSERT_OK_AND_ASSIGN(const StepResult step, two->Step(batch));
    EXPECT_NEAR(step.loss, expected.loss, 1e-6);
    EXPECT_NEAR(step.grad_norm, expected.grad_norm, 1e-6);
    EXPECT_EQ(step.tokens, 16);
    EXPECT_FALSE(step.skipped);
  }
}

TEST_P(EachStage, TheNormIsOfTheMeanOverRanks) {
  const std::unique_ptr<Engine> engine = Make(Layout(SgdConfig(), 2, GetParam()), DotModel(2));
  ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(Samples({{6, 2}, {0, 22}})));
  EXPECT_NEAR(step.grad_norm, 12.369316877, 1e-6);
}

TEST_P(EachStage, GradientsAreClippedWhenTheirScaleIsTakenOut) {
  EngineConfig config = Layout(SgdConfig(), 2, GetParam());
  config.mutable_learning_rate()->set_peak(1);
  config.set_precision(EngineConfig::F16);
  config.mutable_loss_scale()->set_initial(1024);
  config.set_clip_norm(1);
  const std::unique_ptr<Engine> engine = Make(config, DotModel(2));
  ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(Samples({{3, 4}, {3, 4}})));
  EXPECT_NEAR(step.grad_norm, 5, 1e-6);
  EXPECT_THAT(Weights(*engine), ElementsAre(FloatNear(0.4f, 2e-6f), FloatNear(0.2f, 2e-6f), 1.0f));
}

TEST_P(EachStage, MastersKeepWhatHalfPrecisionWouldLose) {
  EngineConfig config = Layout(SgdConfig(), 2, GetParam());
  config.mutable_learning_rate()->set_peak(6e-4);
  config.set_precision(EngineConfig::BF16);
  const std::unique_ptr<Engine> engine = Make(config, DotModel(1));
  for (int i = 0; i < 100; ++i) ASSERT_THAT(engine->Step(Samples({{1}, {1}})), IsOk());
  EXPECT_NEAR(Weights(*engine)[0], 0.940002, 1e-5);
  ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(Samples({{1}, {1}})));
  EXPECT_EQ(step.loss, 0.94140625);  // the weight that layers see, in bf16
}

TEST_P(EachStage, ManyMicrobatchesAddUpInF32) {
  for (const int data : {1, 2}) {
    EngineConfig config = Layout(SgdConfig(), data, GetParam(), 512 / data);
    config.set_precision(EngineConfig::BF16);
    const std::unique_ptr<Engine> engine = Make(config, DotModel(1));
    const std::vector<std::vector<float>> ones(512, {1});
    ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(Samples(ones)));
    EXPECT_EQ(step.grad_norm, 1);  // 512 times 1/512
  }
}

TEST_P(EachStage, APartialLastWindowIsDividedByWhatItHolds) {
  const std::unique_ptr<Engine> engine = Make(Layout(SgdConfig(), 2, GetParam(), 4), ScaleModel(false));
  IndexedSource source(2, [](int64_t i) {
    return i == 0 ? ScaleBatch(std::vector<float>(16, 1)) : ScaleBatch({2, 4, 6});
  });
  std::vector<double> norms;
  RunOptions options;
  options.on_step = [&](const StepResult& step) {
    norms.push_back(step.grad_norm);
    return absl::OkStatus();
  };
  ASSERT_THAT(engine->Run(source, options), IsOk());
  EXPECT_THAT(norms, ElementsAre(::testing::DoubleNear(1, 1e-6), ::testing::DoubleNear(4, 1e-6)));
}

TEST_P(EachStage, WhatEveryTensorRankHoldsCountsOnceInTheNorm) {
  for (const int data : {1, 2}) {
    EngineConfig config = Layout(SgdConfig(), data, GetParam());
    config.mutable_parallel()->set_tensor(2);
    const std::vector<std::vector<float>> samples(2, {3, 4});
    std::unique_ptr<Engine> engine = Make(config, DotModel(2, 1, 12));
    ASSERT_OK_AND_ASSIGN(const StepResult two, engine->Step(Samples(samples)));
    EXPECT_NEAR(two.grad_norm, 13, 1e-5);

    config.mutable_parallel()->set_tensor(4);
    engine = Make(config, DotModel(16, 4, 1));
    ASSERT_OK_AND_ASSIGN(const StepResult four, engine->Step(Samples({2, std::vector<float>(16, 1)})));
    EXPECT_NEAR(four.grad_norm, std::sqrt(20.0), 1e-5);
  }
}

// Weights, gradients and moments of the whole precision within what half a mantissa allows.
TEST_P(EachStage, HalfPrecisionTrainsLikeF32) {
  const Trained expected = Train(AdamWConfig(), 8, 8);
  for (const auto precision : {EngineConfig::BF16, EngineConfig::F16}) {
    for (const auto gradients : {EngineConfig::F32, EngineConfig::BF16}) {
      EngineConfig config = Layout(AdamWConfig(), 2, GetParam(), 2);
      config.set_precision(precision);
      config.set_gradient_precision(gradients);
      const Trained trained = Train(config, 8, 8);
      ASSERT_EQ(trained.losses.size(), expected.losses.size());
      const double tolerance =
          precision == EngineConfig::BF16 || gradients == EngineConfig::BF16 ? 0.03 : 0.005;
      for (size_t i = 0; i < expected.losses.size(); ++i) {
        EXPECT_NEAR(trained.losses[i], expected.losses[i], tolerance) << i;
      }
    }
  }
}

}  // namespace
}  // namespace armature
