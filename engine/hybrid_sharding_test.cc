// State sharded over groups of data ranks and replicated from group to group: the training of one rank.
#include <atomic>
#include <memory>
#include <vector>

#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"
#include "armature/engine/engine_test_training.h"

namespace armature {
namespace {

using ::testing::HasSubstr;
using Pass = HookBlock::Pass;

EngineConfig Hybrid(EngineConfig config, int data, int sharding, int sharding_ranks, int microbatches = 1) {
  config = Layout(config, data, sharding, microbatches);
  config.mutable_parallel()->set_sharding_ranks(sharding_ranks);
  return config;
}

TEST(HybridSharding, GivesTheLossesAndWeightsOfOneRank) {
  EngineConfig adamw = AdamWConfig();
  adamw.set_clip_norm(0.5);
  EngineConfig lamb = adamw;  // whose norms are sums over shards
  lamb.mutable_optimizer()->mutable_lamb();
  for (const EngineConfig& config : {adamw, lamb}) {
    const Trained expected = Train(config, 5, 9, 0.2);
    for (const int sharding : {1, 2, 3}) {
      for (const int sharding_ranks : {1, 2, 4}) {
        SCOPED_TRACE(absl::StrCat("stage ", sharding, " over ", sharding_ranks));
        const Trained trained = Train(Hybrid(config, 4, sharding, sharding_ranks, 2), 5, 9, 0.2);
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

TEST(HybridSharding, ReproducibleHasTheBitsOfOneRank) {
  EngineConfig config = AdamWConfig();
  config.set_reproducible(true);
  const Trained expected = Train(config, 10, 13, 0.1);
  for (const int sharding : {1, 2, 3}) {
    for (const int sharding_ranks : {2, 4}) {
      const Trained trained = Train(Hybrid(config, 8, sharding, sharding_ranks, 2), 10, 13, 0.1);
      EXPECT_EQ(trained.weights, expected.weights) << "stage " << sharding << " over " << sharding_ranks;
      EXPECT_EQ(trained.norms, expected.norms);
    }
  }
}

TEST(HybridSharding, BucketSizesAndOverlapChangeNoBit) {
  for (const int sharding : {1, 2, 3}) {
    EngineConfig config = Hybrid(AdamWConfig(), 4, sharding, 2, 2);
    const Trained expected = Train(config, 3, 12);
    for (const int64_t bucket_bytes : {64, 4096}) {
      for (const bool no_overlap : {false, true}) {
        config.mutable_parallel()->set_bucket_bytes(bucket_bytes);
        config.mutable_parallel()->set_no_overlap(no_overlap);
        EXPECT_EQ(Train(config, 3, 12).weights, expected.weights) << bucket_bytes << " stage " << sharding;
      }
    }
  }
}

TEST(HybridSharding, ItsCheckpointLoadsIntoOtherLayouts) {
  MemoryFileSystem files;
  Environment environment;
  environment.files = &files;
  EngineConfig config = AdamWConfig();
  config.mutable_checkpoint()->set_directory("/run");
  std::unique_ptr<Engine> saver = Make(Hybrid(config, 4, 3, 2), MakeGpt2(TinyGpt2()), environment);
  Train(*saver, 2, 8);
  ASSERT_OK_AND_ASSIGN(const SaveHandle save, saver->Save());
  ASSERT_THAT(save.Wait(), IsOk());
  const std::vector<float> saved = Weights(*saver);
  ASSERT_OK_AND_ASSIGN(const StepResult next, saver->Step(Gpt2Batch(8, 9)));
  saver = nullptr;
  config.mutable_checkpoint()->set_read_only(true);
  for (const EngineConfig& to : {Layout(config, 1, 0), Layout(config, 3, 2), Hybrid(config, 6, 2, 3)}) {
    const std::unique_ptr<Engine> loader = Make(to, MakeGpt2(TinyGpt2()), environment);
    ASSERT_THAT(loader->Restore(), IsOk());
    EXPECT_EQ(Weights(*loader), saved);
    ASSERT_OK_AND_ASSIGN(const StepResult step, loader->Step(Gpt2Batch(8, 9)));
    EXPECT_NEAR(step.loss, next.loss, 1e-6);
    EXPECT_NEAR(step.grad_norm, next.grad_norm, 5e-6 * next.grad_norm);
  }
}

TEST(HybridSharding, AnErrorOnOneRankEndsTheStepOnAllAtOnceAndTheEngineGoesOn) {
  for (const int sharding : {1, 2, 3}) {
    std::atomic<int> countdown{-1};
    const auto hook = [&countdown](Pass pass) -> absl::Status {
      if (pass == Pass::kBackward && countdown.fetch_sub(1) == 0) return absl::DataLossError("a bad block");
      return absl::OkStatus();
    };
    EngineConfig config = Hybrid(AdamWConfig(), 4, sharding, 2, 2);
    config.mutable_parallel()->set_timeout_seconds(300);  // nobody may wait for it
    const std::unique_ptr<Engine> engine = Make(config, WithHook(MakeGpt2(TinyGpt2()), 2, hook));
    for (int i = 0; i < 3; ++i) {
      const std::vector<float> before = Weights(*engine);
      countdown = i;
      EXPECT_THAT(engine->Step(Gpt2Batch(12, 5)),
                  StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a bad block")));
      EXPECT_EQ(Weights(*engine), before);
      countdown = -1;
      EXPECT_THAT(engine->Step(Gpt2Batch(12, i)), IsOk());
    }
  }
}

}  // namespace
}  // namespace armature
