// The engine's debugging aids: where a number that is not finite came from, and whether replicas are the
// same.
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"
#include "armature/engine/engine_test_training.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A GPT-2 with one weight that is not a number.
std::unique_ptr<Engine> WithBadWeight(EngineConfig config, const std::string& name) {
  config.set_detect_anomaly(true);
  std::unique_ptr<Engine> engine = Make(config, MakeGpt2(TinyGpt2()));
  std::vector<std::vector<float>> memory;
  std::vector<NamedBuffer> weights;
  EXPECT_THAT(engine->ExportWeights([&](const NamedBuffer& weight) {
    const float* values = static_cast<const float*>(weight.view.data);
    memory.emplace_back(values, values + weight.view.count);
    if (weight.name == name) memory.back()[0] = std::numeric_limits<float>::quiet_NaN();
    weights.push_back(weight);
    weights.back().view.data = memory.back().data();
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_THAT(engine->ImportWeights(weights), IsOk());
  return engine;
}

TEST(DetectAnomaly, NamesTheFirstModuleWhoseOutputIsNotFinite) {
  for (const int data : {1, 2}) {
    for (const auto recompute : {EngineConfig::NONE, EngineConfig::FULL, EngineConfig::SELECTIVE}) {
      EngineConfig config = Layout(AdamWConfig(), data, data == 1 ? 0 : 3);
      config.set_recompute(recompute);
      const std::unique_ptr<Engine> engine = WithBadWeight(config, "h.1.mlp.c_fc.weight");
      ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(Gpt2Batch(4, 1)));
      EXPECT_TRUE(step.skipped);
      EXPECT_THAT(step.anomaly, AllOf(HasSubstr("the output of"), HasSubstr("in h.1.mlp.c_fc")));
    }
  }
}

TEST(DetectAnomaly, NamesTheModuleNextToAGradientThatIsNotFinite) {
  EngineConfig config = Layout(AdamWConfig(), 2, 0);
  config.set_detect_anomaly(true);
  std::atomic<bool> spoil{false};
  const auto factor = [&spoil](int64_t first, int64_t) { return spoil && first > 0 ? HUGE_VAL : 1; };
  const std::unique_ptr<Engine> engine =
      Make(config, WithGradientFactor(MakeGpt2(TinyGpt2()), /*block=*/2, factor));
  ASSERT_OK_AND_ASSIGN(const StepResult fine, engine->Step(Gpt2Batch(4, 1)));
  EXPECT_THAT(fine.anomaly, IsEmpty());
  spoil = true;  // on the second rank
  ASSERT_OK_AND_ASSIGN(const StepResult step, engine->Step(Gpt2Batch(4, 1)));
  EXPECT_TRUE(step.skipped);
  EXPECT_EQ(step.anomaly, "rank 1: the gradient from ScaleGradient next to h.1.ln_1");
}

// Spoils a weight of one rank.
class SpoilBlock : public Block {
 public:
  SpoilBlock(ModuleBuilder builder, std::atomic<int>& made, std::atomic<bool>& spoil)
      : gain_(builder.Parameter("gain", {4}, Initializer::Constant(1))), number_(made++), spoil_(spoil) {}
  Activations Forward(Context& context, const Activations& in) const override {
    const Tensor gain = context.Use(gain_);
    if (!gain.ok()) return {gain};
    if (spoil_ && number_ == 1) static_cast<float*>(gain.data())[2] += 0.5f;
    return in;
  }
  BlockCost Cost(int64_t, int64_t) const override { return {}; }

 private:
  const ParameterId gain_;
  const int number_;
  const std::atomic<bool>& spoil_;
};

TEST(CheckReplicas, NamesTheParameterThatDiffersAndARestoreLeadsOut) {
  for (const int sharding : {0, 1, 2}) {
    std::atomic<int> made{0};
    std::atomic<bool> spoil{false};
    ASSERT_OK_AND_ASSIGN(Model model, MakeGpt2(TinyGpt2()));
    model.blocks.insert(model.blocks.begin() + 1,
                        [&](ModuleBuilder builder) -> absl::StatusOr<std::unique_ptr<Block>> {
                          return std::make_unique<SpoilBlock>(builder.Scope("spoilt"), made, spoil);
                        });
    MemoryFileSystem files;
    Environment environment;
    environment.files = &files;
    EngineConfig config = Layout(AdamWConfig(), 3, sharding);
    config.set_check_replicas_every(2);
    config.mutable_checkpoint()->set_directory("/run");
    const std::unique_ptr<Engine> engine = Make(config, model, environment);
    for (int i = 0; i < 2; ++i) ASSERT_THAT(engine->Step(Gpt2Batch(6, i)), IsOk());
    ASSERT_OK_AND_ASSIGN(const SaveHandle save, engine->Save());
    ASSERT_THAT(save.Wait(), IsOk());
    spoil = true;
    ASSERT_THAT(engine->Step(Gpt2Batch(6, 2)), IsOk());  // is not looked at
    spoil = false;
    const absl::Status differ = engine->Step(Gpt2Batch(6, 3)).status();
    if (sharding == 0) {
      EXPECT_THAT(differ,
                  StatusIs(absl::StatusCode::kDataLoss,
                           AllOf(HasSubstr("step 4"), HasSubstr("spoilt.gain differ between ranks 0 and "))));
      EXPECT_THAT(engine->Step(Gpt2Batch(6, 3)), StatusIs(absl::StatusCode::kDataLoss));
    } else {
      EXPECT_THAT(differ, IsOk());  // the owner's shards went to all ranks again
    }
    ASSERT_THAT(engine->Restore(), IsOk());
    for (int i = 2; i < 4; ++i) EXPECT_THAT(engine->Step(Gpt2Batch(6, i)), IsOk());
  }
}

TEST(CheckReplicas, IsQuietWhereAllIsWell) {
  for (const int sharding : {0, 1, 2, 3}) {
    EngineConfig config = Layout(AdamWConfig(), 4, sharding);
    config.mutable_parallel()->set_tensor(2);
    if (sharding > 0) config.mutable_parallel()->set_sharding_ranks(2);
    config.set_check_replicas_every(1);
    const std::unique_ptr<Engine> engine = Make(config, MakeGpt2(TinyGpt2(0.1)));
    EXPECT_EQ(Train(*engine, 3, 8).losses.size(), 3u);
  }
}

}  // namespace
}  // namespace armature
