// Less memory for the same training: recomputation of blocks and parts, optimizer states in files.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"
#include "armature/engine/engine_test_training.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

Gpt2Config Deep() {
  Gpt2Config config = TinyGpt2(0.1);
  config.layers = 12;
  return config;
}

struct Outcome {
  std::vector<float> weights;
  int64_t activation_peak = 0;
};

Outcome RunDeep(const EngineConfig& config) {
  const std::unique_ptr<Engine> engine = Make(config, MakeGpt2(Deep()));
  if (engine == nullptr) return {};
  Train(*engine, 3, 8);
  return {Weights(*engine), engine->memory(MemoryCategory::kActivations).peak_bytes};
}

TEST(Recompute, OfMoreTakesLessMemoryAndChangesNoBit) {
  EngineConfig config = AdamWConfig();
  const Outcome none = RunDeep(config);
  config.set_recompute(EngineConfig::FULL);
  const Outcome full = RunDeep(config);
  config.set_recompute_every(3);
  const Outcome every_third = RunDeep(config);
  config.clear_recompute_every();
  config.set_recompute(EngineConfig::SELECTIVE);
  const Outcome attention = RunDeep(config);
  config.add_recompute_parts("mlp");
  const Outcome mlp = RunDeep(config);
  config.add_recompute_parts("attention");
  const Outcome both = RunDeep(config);

  for (const Outcome* run : {&full, &every_third, &attention, &mlp, &both}) {
    EXPECT_EQ(run->weights, none.weights);
    EXPECT_LT(run->activation_peak, none.activation_peak);
  }
  EXPECT_LT(full.activation_peak, none.activation_peak / 2);
  EXPECT_LT(full.activation_peak, every_third.activation_peak);
  EXPECT_LT(both.activation_peak, attention.activation_peak);
  EXPECT_LT(both.activation_peak, mlp.activation_peak);
}

TEST(Recompute, SelectiveChangesNoBitOverRanksAndStages) {
  for (const int sharding : {0, 2, 3}) {
    EngineConfig config = Layout(AdamWConfig(), 2, sharding, 2);
    config.mutable_parallel()->set_tensor(2);
    const Trained none = Train(config, 3, 8, 0.1);
    config.set_recompute(EngineConfig::SELECTIVE);
    config.add_recompute_parts("attention");
    config.add_recompute_parts("mlp");
    EXPECT_EQ(Train(config, 3, 8, 0.1).weights, none.weights) << "stage " << sharding;
  }
}

TEST(Recompute, APartThatTheModelLacksIsNamedWithThoseThatItHas) {
  EngineConfig config = AdamWConfig();
  config.set_recompute(EngineConfig::SELECTIVE);
  config.add_recompute_parts("atention");
  EXPECT_THAT(Engine::Create(config, *MakeGpt2(TinyGpt2())).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has no part \"atention\"; it has attention, mlp")));
}

TEST(OptimizerOffload, ChangesNoBitAndTakesNoMemoryForTheStates) {
  for (const int sharding : {0, 3}) {
    EngineConfig config = Layout(AdamWConfig(), 2, sharding);
    const Trained expected = Train(config, 4, 8);
    config.set_optimizer_offload_directory(testing::TempDir());
    const std::unique_ptr<Engine> engine = Make(config, MakeGpt2(TinyGpt2()));
    EXPECT_EQ(Train(*engine, 4, 8).weights, expected.weights);
  }
  // A limit that the states alone would pass.
  EngineConfig config = AdamWConfig();
  config.set_recompute(EngineConfig::FULL);
  Gpt2Config wide = TinyGpt2();
  wide.hidden = 128;
  wide.layers = 4;
  config.set_memory_limit_bytes(9 << 20);  // 0.8 million weights: 3.2 MB each of weights, gradients, moments
  EXPECT_THAT(Engine::Create(config, *MakeGpt2(wide)).status(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  config.set_optimizer_offload_directory(testing::TempDir());
  const std::unique_ptr<Engine> engine = Make(config, MakeGpt2(wide));
  ASSERT_NE(engine, nullptr);
  EXPECT_THAT(engine->Step(Gpt2Batch(1, 1)), IsOk());
}

TEST(OptimizerOffload, ADirectoryThatIsNotThereIsAnErrorOfCreate) {
  EngineConfig config = AdamWConfig();
  config.set_optimizer_offload_directory("/nowhere/at/all");
  EXPECT_THAT(Engine::Create(config, *MakeGpt2(TinyGpt2())).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/at/all")));
}

}  // namespace
}  // namespace armature
