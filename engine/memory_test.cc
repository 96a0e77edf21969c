// What each ZeRO stage keeps on a rank, by the allocator's counters, against the paper's formulas.
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/status_matchers.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"
#include "armature/engine/engine_test_training.h"

namespace armature {
namespace {

Gpt2Config SmallGpt2() {
  Gpt2Config config;
  config.vocabulary = 512;
  config.max_positions = 8;
  config.hidden = 64;
  config.layers = 4;
  config.heads = 2;
  return config;
}

// Bytes a parameter of AdamW with bf16 weights over n ranks, where a gradient takes `gradient` bytes.
double BytesAParameter(int stage, double n, double gradient) {
  const double weight = 2, master_and_moments = 4 + 8;
  return weight / (stage >= 3 ? n : 1) + gradient / (stage >= 2 ? n : 1) +
         master_and_moments / (stage >= 1 ? n : 1);
}

class StateMemory : public ::testing::TestWithParam<int> {};

TEST_P(StateMemory, IsTheFormulaOfTheStage) {
  const int stage = GetParam();
  EXPECT_EQ(BytesAParameter(0, 4, 2), 16);
  EXPECT_EQ(BytesAParameter(3, 4, 2), 4);
  for (const int ranks : {2, 4, 8}) {
    for (const bool bf16_gradients : {true, false}) {
      SCOPED_TRACE(absl::StrCat("stage ", stage, ", ", ranks, " ranks"));
      EngineConfig config = Layout(AdamWConfig(), ranks, stage, 2);
      config.set_precision(EngineConfig::BF16);
      if (bf16_gradients) config.set_gradient_precision(EngineConfig::BF16);
      const std::unique_ptr<Engine> engine = Make(config, MakeGpt2(SmallGpt2()));
      ASSERT_NE(engine, nullptr);
      ASSERT_THAT(engine->Step(Gpt2Batch(ranks, 1)), IsOk());
      const double expected = BytesAParameter(stage, ranks, bf16_gradients ? 2 : 4) *
                              static_cast<double>(engine->num_parameters());
      for (int rank = 0; rank < ranks; ++rank) {
        double live = 0, peak = 0;
        for (const MemoryCategory category :
             {MemoryCategory::kParameters, MemoryCategory::kGradients, MemoryCategory::kOptimizer}) {
          live += static_cast<double>(engine->memory(category, rank).live_bytes);
          peak += static_cast<double>(engine->memory(category, rank).peak_bytes);
        }
        EXPECT_NEAR(live, expected, 0.03 * expected);
        EXPECT_NEAR(peak, expected, 0.03 * expected);
        EXPECT_EQ(engine->memory(MemoryCategory::kCommunication, rank).live_bytes, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, StateMemory, ::testing::Values(0, 1, 2, 3));

TEST(StateMemory, HybridShardingDividesByTheGroup) {
  EngineConfig config = Layout(AdamWConfig(), 4, 3);
  config.mutable_parallel()->set_sharding_ranks(2);
  const std::unique_ptr<Engine> engine = Make(config, MakeGpt2(SmallGpt2()));
  ASSERT_THAT(engine->Step(Gpt2Batch(4, 1)), IsOk());
  const double expected = 8 * static_cast<double>(engine->num_parameters());  // 16 bytes over 2
  double live = 0;
  for (const MemoryCategory category :
       {MemoryCategory::kParameters, MemoryCategory::kGradients, MemoryCategory::kOptimizer}) {
    live += static_cast<double>(engine->memory(category, 3).live_bytes);
  }
  EXPECT_NEAR(live, expected, 0.03 * expected);
}

// Weights that are gathered for a block, and gradients on their way to their shards.
TEST(CommunicationMemory, IsThatOfSomeBlocksAndNotOfTheModel) {
  Gpt2Config deep = SmallGpt2();
  deep.layers = 24;
  deep.vocabulary = 32;
  const std::unique_ptr<Engine> engine = Make(Layout(AdamWConfig(), 2, 3), MakeGpt2(deep));
  ASSERT_THAT(engine->Step(Gpt2Batch(2, 1)), IsOk());
  const int64_t block = engine->num_parameters() * 4 / 24;
  const int64_t peak = engine->memory(MemoryCategory::kCommunication).peak_bytes;
  EXPECT_GT(peak, block);
  EXPECT_LT(peak, 7 * block);  // three of weights, three of gradients, and shards
}

}  // namespace
}  // namespace armature
