// Saves, resumes, and what happens when a disk fails.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "armature/base/faulty_file_system.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/checkpoint/checkpointer.h"
#include "armature/data/language_model_source.h"
#include "armature/data/prefetching_source.h"
#include "armature/data/token_file_writer.h"
#include "armature/engine/engine.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Resume : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<int32_t> tokens(8 * 23 + 1);  // 23 samples
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i % 31);
    TokenFileOptions options;
    options.vocabulary_size = 32;
    ASSERT_OK_AND_ASSIGN(auto writer, TokenFileWriter::Create(disk_, "data", options));
    ASSERT_THAT(writer->Append(tokens), IsOk());
    ASSERT_THAT(writer->Finish(), IsOk());
  }

  std::unique_ptr<BatchSource> Source() {
    absl::StatusOr<TokenFile> file = TokenFile::Open(disk_, "data");
    EXPECT_THAT(file, IsOk());
    LanguageModelOptions options;
    options.sequence_length = 8;
    options.batch_size = 3;
    auto source = LanguageModelSource::Create(std::make_shared<const TokenFile>(*std::move(file)), options);
    EXPECT_THAT(source, IsOk());
    return std::make_unique<PrefetchingSource>(*std::move(source), PrefetchOptions());
  }

  EngineConfig Config(const std::string& directory) const {
    EngineConfig config;
    config.mutable_learning_rate()->set_peak(0.01);
    config.mutable_learning_rate()->set_warmup_steps(4);
    config.mutable_learning_rate()->set_total_steps(12);
    config.mutable_learning_rate()->mutable_cosine();
    config.set_clip_norm(1);
    config.set_threads(1);
    config.mutable_checkpoint()->set_directory(directory);
    return config;
  }

  absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineConfig& config, FileSystem& files,
                                                 int64_t layers = 2) {
    Gpt2Config gpt2 = TinyGpt2(0.2);
    gpt2.layers = layers;
    absl::StatusOr<Model> model = MakeGpt2(gpt2);
    if (!model.ok()) return model.status();
    Environment environment;
    environment.files = &files;
    return Engine::Create(config, *std::move(model), environment);
  }

  static absl::StatusOr<RunResult> RunSteps(Engine& engine, BatchSource& source, int64_t steps) {
    RunOptions options;
    options.max_steps = steps;
    return engine.Run(source, options);
  }

  MemoryFileSystem disk_;
};

TEST_F(Resume, InTheMiddleOfAnEpochGivesTheBitsOfAnUninterruptedRun) {
  ASSERT_OK_AND_ASSIGN(const auto whole, Create(Config("whole"), disk_));
  const auto whole_source = Source();
  ASSERT_OK_AND_ASSIGN(const RunResult uninterrupted,
                       RunSteps(*whole, *whole_source, 10));  // 7 steps an epoch

  {
    ASSERT_OK_AND_ASSIGN(const auto first, Create(Config("parts"), disk_));
    const auto source = Source();
    ASSERT_THAT(RunSteps(*first, *source, 5), IsOk());
  }
  ASSERT_OK_AND_ASSIGN(const auto second, Create(Config("parts"), disk_));
  const auto source = Source();
  ASSERT_OK_AND_ASSIGN(const RestoreResult restored, second->Restore(source.get()));
  EXPECT_EQ(restored.step, 5);
  EXPECT_THAT(restored.skipped, ElementsAre());
  ASSERT_OK_AND_ASSIGN(const RunResult resumed, RunSteps(*second, *source, 5));
  EXPECT_EQ(resumed.last.step, 10);
  EXPECT_EQ(resumed.last.updates, 10);
  EXPECT_EQ(resumed.last.loss, uninterrupted.last.loss);
  EXPECT_EQ(resumed.last.learning_rate, uninterrupted.last.learning_rate);
  EXPECT_EQ(Weights(*second), Weights(*whole));
}

TEST_F(Resume, SavesEverySoManyStepsAndKeepsTheLast) {
  EngineConfig config = Config("c");
  config.mutable_checkpoint()->set_every_steps(2);
  config.mutable_checkpoint()->set_keep_last(2);
  ASSERT_OK_AND_ASSIGN(const auto engine, Create(config, disk_));
  const auto source = Source();
  std::vector<int64_t> saved;
  RunOptions options;
  options.max_steps = 7;
  options.on_checkpoint = [&](const SaveReport& report) {
    saved.push_back(report.step);
    return absl::OkStatus();
  };
  ASSERT_THAT(engine->Run(*source, options), IsOk());
  EXPECT_THAT(saved, ElementsAre(2, 4, 6, 7));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, disk_.List("c"));
  int steps = 0;
  for (const std::string& name : names) steps += name.rfind("step-", 0) == 0;
  EXPECT_EQ(steps, 2);
}

TEST_F(Resume, AnEmptyDirectoryIsNotFound) {
  ASSERT_OK_AND_ASSIGN(const auto engine, Create(Config("c"), disk_));
  EXPECT_THAT(engine->Restore(), StatusIs(absl::StatusCode::kNotFound));
  EngineConfig none = Config("");
  ASSERT_OK_AND_ASSIGN(const auto without, Create(none, disk_));
  EXPECT_THAT(without->Save(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("checkpoint.directory")));
  EXPECT_THAT(without->Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("checkpoint.directory")));
}

TEST_F(Resume, AnotherModelsCheckpointIsRefusedAndNothingIsTouched) {
  {
    ASSERT_OK_AND_ASSIGN(const auto engine, Create(Config("c"), disk_));
    ASSERT_OK_AND_ASSIGN(const SaveHandle save, engine->Save());
    ASSERT_THAT(save.Wait(), IsOk());
  }
  ASSERT_OK_AND_ASSIGN(const auto other, Create(Config("c"), disk_, /*layers=*/3));
  const std::vector<float> before = Weights(*other);
  EXPECT_THAT(other->Restore(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gpt2")));
  EXPECT_EQ(Weights(*other), before);
}

TEST_F(Resume, TwoEnginesCannotWriteIntoOneDirectory) {
  ASSERT_OK_AND_ASSIGN(const auto engine, Create(Config("c"), disk_));
  EXPECT_THAT(Create(Config("c"), disk_), StatusIs(absl::StatusCode::kFailedPrecondition));
  EngineConfig reader = Config("c");
  reader.mutable_checkpoint()->set_read_only(true);
  EXPECT_THAT(Create(reader, disk_), IsOk());
}

TEST_F(Resume, AFullDiskIsAnErrorAndTheOlderCheckpointStays) {
  FaultyFileSystem faulty(disk_);
  ASSERT_OK_AND_ASSIGN(const auto engine, Create(Config("c"), faulty));
  const auto source = Source();
  ASSERT_THAT(RunSteps(*engine, *source, 2), IsOk());
  const std::vector<float> at_two = Weights(*engine);
  FaultPlan full;
  full.free_bytes = 3000;
  faulty.SetPlan(full);
  EXPECT_THAT(RunSteps(*engine, *source, 2), StatusIs(absl::StatusCode::kResourceExhausted));
  faulty.SetPlan({});
  EXPECT_THAT(engine->Step(Gpt2Batch(3, 1)), IsOk());  // the engine goes on
  ASSERT_OK_AND_ASSIGN(const RestoreResult restored, engine->Restore());
  EXPECT_EQ(restored.step, 2);
  EXPECT_EQ(Weights(*engine), at_two);
}

TEST_F(Resume, ACrashAtAnyPointOfASaveLeavesACompleteStep) {
  for (int64_t point = 0;; ++point) {
    MemoryFileSystem disk;
    FaultyFileSystem faulty(disk);
    {
      ASSERT_OK_AND_ASSIGN(const auto engine, Create(Config("c"), faulty));
      ASSERT_OK_AND_ASSIGN(const SaveHandle first, engine->Save());
      ASSERT_THAT(first.Wait(), IsOk());
      ASSERT_THAT(engine->Step(Gpt2Batch(2, 1)), IsOk());
      FaultPlan crash;
      crash.fail_at = point;
      crash.crash = true;
      faulty.SetPlan(crash);
      const absl::StatusOr<SaveHandle> second = engine->Save();
      if (second.ok()) second->Wait().status().IgnoreError();
    }
    disk.Crash(CrashKeeps::kSyncedOnly);
    ASSERT_OK_AND_ASSIGN(const auto survivor, Create(Config("c"), disk));
    ASSERT_OK_AND_ASSIGN(const RestoreResult restored, survivor->Restore());
    EXPECT_TRUE(restored.step == 0 || restored.step == 1) << "point " << point;
    if (!faulty.fault_happened()) {
      EXPECT_EQ(restored.step, 1);
      break;
    }
  }
}

TEST_F(Resume, ASourceThatRefusesItsPlaceLeavesTheEngineAsItWas) {
  ASSERT_OK_AND_ASSIGN(const auto engine, Create(Config("c"), disk_));
  const auto source = Source();
  ASSERT_THAT(RunSteps(*engine, *source, 2), IsOk());
  ASSERT_THAT(engine->Step(Gpt2Batch(2, 1)), IsOk());
  const std::vector<float> before = Weights(*engine);
  class Stubborn : public BatchSource {
   public:
    absl::StatusOr<absl::optional<Batch>> Next() override { return absl::optional<Batch>(); }
    std::string Position() const override { return ""; }
    absl::Status Restore(absl::string_view) override { return absl::FailedPreconditionError("other data"); }
  };
  Stubborn stubborn;
  EXPECT_THAT(engine->Restore(&stubborn),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("other data")));
  EXPECT_EQ(engine->step(), 3);
  EXPECT_EQ(Weights(*engine), before);
  EXPECT_THAT(engine->Step(Gpt2Batch(2, 1)), IsOk());
  EXPECT_THAT(engine->Restore(), IsOk());
  EXPECT_EQ(engine->step(), 2);
}

// A checkpoint of a scale model, made without an engine: one weight, 5, and the moments 0.
absl::Status SaveByHand(FileSystem& files, int64_t step, const Shape& shape, const TrainState& state) {
  CheckpointOptions options;
  options.model = "scale parameters=1";
  absl::StatusOr<std::unique_ptr<Checkpointer>> checkpointer = Checkpointer::Open(files, "c", options);
  if (!checkpointer.ok()) return checkpointer.status();
  float weight = 5, m = 0, v = 0;
  std::vector<ShardedArray> arrays;
  const auto add = [&](const std::string& name, float& value) {
    ShardedArray array;
    array.name = name;
    array.global_shape = shape;
    array.slice = WholeSlice(shape);
    array.local = BufferView{&value, 1, DType::kF32, Device()};
    arrays.push_back(std::move(array));
  };
  add("w", weight);
  add("optimizer.m.w", m);
  add("optimizer.v.w", v);
  const absl::StatusOr<SaveHandle> save = (*checkpointer)->Save(step, arrays, state);
  return save.ok() ? save->Wait().status() : save.status();
}

std::unique_ptr<Engine> ScaleEngine(FileSystem& files) {
  EngineConfig config = AdamWConfig();
  config.mutable_checkpoint()->set_directory("c");
  Environment environment;
  environment.files = &files;
  return Make(config, ScaleModel(false), environment);
}

TEST_F(Resume, WeightsThatDoNotFitLeaveTheSourceWhereItWas) {
  TrainState state;
  state.set_data_position("3");
  ASSERT_THAT(SaveByHand(disk_, 1, Shape{1}, state), IsOk());
  const auto engine = ScaleEngine(disk_);
  IndexedSource source(9, [](int64_t) { return ScaleBatch({1}); });
  ASSERT_THAT(source.Next(), IsOk());
  EXPECT_THAT(engine->Restore(&source),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("w has shape")));
  EXPECT_EQ(source.next(), 1);
  EXPECT_EQ(engine->step(), 0);
  EXPECT_EQ(Weights(*engine), std::vector<float>{1});
}

TEST_F(Resume, ACheckpointWithoutAPlaceLeavesTheSourceWhereItIs) {
  const auto engine = ScaleEngine(disk_);
  ASSERT_THAT(engine->Step(ScaleBatch({1})), IsOk());
  ASSERT_OK_AND_ASSIGN(const SaveHandle save, engine->Save());
  ASSERT_THAT(save.Wait(), IsOk());
  IndexedSource source(9, [](int64_t) { return ScaleBatch({1}); });
  ASSERT_THAT(source.Next(), IsOk());
  ASSERT_THAT(engine->Restore(&source), IsOk());
  EXPECT_EQ(source.next(), 1);
  EXPECT_EQ(engine->step(), 1);
}

TEST_F(Resume, AnUpdateThatFailsIsTheErrorOfAllUntilARestoreSucceeds) {
  TrainState state;
  state.set_update_count(-2);  // no update rule takes it
  ASSERT_THAT(SaveByHand(disk_, 7, Shape{1, 1}, state), IsOk());
  const auto engine = ScaleEngine(disk_);
  ASSERT_THAT(engine->Restore(), IsOk());
  const auto first_error = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("weight update of step 8"));
  EXPECT_THAT(engine->Step(ScaleBatch({1})), first_error);
  EXPECT_THAT(engine->Step(ScaleBatch({1})), first_error);
  EXPECT_THAT(engine->Predict(ScaleBatch({1})), first_error);
  EXPECT_THAT(engine->Save(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("restore it")));
  EXPECT_THAT(engine->ImportWeights({}), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(engine->step(), 7);

  // A restore that fails mends nothing.
  ASSERT_THAT(disk_.Rename("c/step-00000007", "away"), IsOk());
  EXPECT_THAT(engine->Restore(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(engine->Step(ScaleBatch({1})), first_error);
  ASSERT_THAT(disk_.Rename("away", "c/step-00000007"), IsOk());
  ASSERT_THAT(engine->Restore(), IsOk());
  EXPECT_THAT(engine->Predict(ScaleBatch({1})), IsOk());
}

TEST_F(Resume, ADamagedCheckpointIsPassedOverAndNamed) {
  {
    ASSERT_OK_AND_ASSIGN(const auto engine, Create(Config("c"), disk_));
    const auto source = Source();
    for (int i = 0; i < 2; ++i) ASSERT_THAT(RunSteps(*engine, *source, 2), IsOk());
  }
  FaultyFileSystem faulty(disk_);
  FaultPlan plan;
  plan.bit_flips.push_back({"c/step-00000004/rank-00000.safetensors", 5000, 3});
  faulty.SetPlan(plan);
  ASSERT_OK_AND_ASSIGN(const auto engine, Create(Config("c"), faulty));
  const auto source = Source();
  ASSERT_OK_AND_ASSIGN(const RestoreResult restored, engine->Restore(source.get()));
  EXPECT_EQ(restored.step, 2);
  EXPECT_THAT(restored.skipped, ElementsAre(HasSubstr("step-00000004")));

  // The data goes on where step 2 left it.
  const auto fresh = Source();
  for (int i = 0; i < 2; ++i) ASSERT_THAT(fresh->Next(), IsOk());
  EXPECT_EQ(source->Position(), fresh->Position());
}

}  // namespace
}  // namespace armature
