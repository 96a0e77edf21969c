// The engine as a guest in somebody's process: states, memory, threads, neighbours.
#include "armature/engine/engine.h"

#include <pthread.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "armature/base/faulty_file_system.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/posix_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Create, NamesWhatIsWrongWithTheModel) {
  const auto create = [](Model model) { return Engine::Create(SgdConfig(), std::move(model)).status(); };
  const auto invalid = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("model scale"), HasSubstr(what)));
  };
  Model model = ScaleModel(false);
  model.blocks.clear();
  EXPECT_THAT(create(model), invalid("no blocks"));
  model = ScaleModel(false);
  model.blocks.push_back(model.blocks[0]);
  EXPECT_THAT(create(model).message(), AllOf(HasSubstr("block 1"), HasSubstr("w")));
  model.blocks[1] = [](ModuleBuilder) { return absl::OutOfRangeError("mine"); };
  EXPECT_THAT(create(model), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("block 1: mine")));
  model.blocks[1] = [](ModuleBuilder) { return std::unique_ptr<Block>(); };
  EXPECT_THAT(create(model), invalid("block 1: the builder returned null"));
}

TEST(Create, NamesTheFieldOfADirectoryThatCanNotBeWritten) {
  MemoryFileSystem disk;
  FaultPlan plan;
  plan.read_only = true;
  FaultyFileSystem files(disk, plan);
  EngineConfig config = SgdConfig();
  config.mutable_checkpoint()->set_directory("runs/7");
  Environment environment;
  environment.files = &files;
  EXPECT_THAT(Engine::Create(config, ScaleModel(false), environment),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("checkpoint.directory"), HasSubstr("runs/7"))));
}

TEST(Create, NoMemoryForTheParametersIsResourceExhausted) {
  EngineConfig config = SgdConfig();
  config.set_memory_limit_bytes(1000);
  EXPECT_THAT(Engine::Create(config, *MakeGpt2(TinyGpt2())),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("parameters"), HasSubstr("limit of 1000"))));
}

TEST(Create, AThreadThatTheSystemRefusesIsResourceExhausted) {
  // Threads whose stacks fit no address space.
  pthread_attr_t normal, huge;
  ASSERT_EQ(pthread_getattr_default_np(&normal), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 48), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const absl::Status refused = Engine::Create(SgdConfig(), ScaleModel(false)).status();
  ASSERT_EQ(pthread_setattr_default_np(&normal), 0);
  pthread_attr_destroy(&normal);
  pthread_attr_destroy(&huge);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("thread")));
  EXPECT_THAT(Engine::Create(SgdConfig(), ScaleModel(false)), IsOk());
}

TEST(Engine, RefusesEveryOtherCallWhileOneRuns) {
  std::unique_ptr<Engine> engine;
  int64_t calls = 0;
  const auto try_all = [&](HookBlock::Pass) {
    ++calls;
    IndexedSource source(1, [](int64_t) { return Gpt2Batch(1, 1); });
    const std::vector<absl::Status> results = {
        engine->Step(Gpt2Batch(1, 1)).status(),
        engine->Evaluate(source).status(),
        engine->Predict(Gpt2Batch(1, 1)).status(),
        engine->Run(source).status(),
        engine->Save().status(),
        engine->Restore().status(),
        engine->ExportWeights([](const NamedBuffer&) { return absl::OkStatus(); }),
        engine->ImportWeights({})};
    for (const absl::Status& result : results) {
      EXPECT_THAT(result, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another call")));
    }
    EXPECT_EQ(source.next(), 0);
    return absl::OkStatus();
  };
  engine = Make(SgdConfig(), WithHook(MakeGpt2(TinyGpt2()), 1, try_all));
  EXPECT_THAT(engine->Step(Gpt2Batch(1, 1)), IsOk());
  EXPECT_EQ(calls, 2);
}

TEST(Engine, DestroyedWhileAnotherThreadRunsIt) {
  auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  IndexedSource source(IndexedSource::kEndless, [](int64_t i) { return Gpt2Batch(2, static_cast<int>(i)); });
  absl::StatusOr<RunResult> result;
  std::thread runner([&, raw = engine.get()] { result = raw->Run(source); });
  while (source.next() < 3) std::this_thread::yield();
  engine.reset();
  runner.join();
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled, HasSubstr("destroyed")));
}

// The threads of this process.
size_t NumThreads() {
  PosixFileSystem files;
  const auto tasks = files.List("/proc/self/task");
  EXPECT_THAT(tasks, IsOk());
  return tasks.ok() ? tasks->size() : 0;
}

TEST(Engine, LeavesNoThreadBehind) {
  const size_t before = NumThreads();
  int64_t live_bytes = -1;
  for (int i = 0; i < 50; ++i) {
    EngineConfig config = SgdConfig();
    config.set_threads(3);
    const auto engine = Make(config, MakeGpt2(TinyGpt2()));
    EXPECT_EQ(NumThreads(), before + 3);
    ASSERT_THAT(engine->Step(Gpt2Batch(2, i)), IsOk());
    if (live_bytes < 0) live_bytes = engine->total_memory().live_bytes;
    EXPECT_EQ(engine->total_memory().live_bytes, live_bytes);
  }
  // The kernel may count a joined thread a little longer.
  for (int tries = 0; tries < 1000 && NumThreads() > before; ++tries) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(NumThreads(), before);
}

TEST(Engine, TwoInOneProcessGiveTheBitsOfEachAlone) {
  const auto train = [](int seed, std::vector<float>* weights) {
    EngineConfig config = AdamWConfig(1 + seed);
    config.set_seed(seed);
    config.set_threads(1 + seed);
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

TEST(Engine, GivesBackTheMemoryOfAStepThatRanOutOfIt) {
  EngineConfig config = SgdConfig(2);
  config.set_memory_limit_bytes(400000);
  const auto engine = Make(config, MakeGpt2(TinyGpt2()));
  const std::vector<float> before = Weights(*engine);
  const int64_t live = engine->total_memory().live_bytes;
  EXPECT_THAT(engine->Step(Gpt2Batch(200, 1)), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(engine->total_memory().live_bytes, live);
  EXPECT_EQ(Weights(*engine), before);
  EXPECT_EQ(engine->step(), 0);
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

}  // namespace
}  // namespace armature
