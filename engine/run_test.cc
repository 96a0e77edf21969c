// Run: how it ends, what it saves, and what an error leaves behind.
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "armature/base/faulty_file_system.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/engine/engine.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

IndexedSource Batches(int64_t count) {
  return IndexedSource(count, [](int64_t i) { return Gpt2Batch(2, static_cast<int32_t>(i % 100)); });
}

TEST(Run, EndsWithTheSourceOrAtMaxSteps) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  IndexedSource source = Batches(5);
  RunOptions options;
  options.max_steps = 3;
  ASSERT_OK_AND_ASSIGN(RunResult result, engine->Run(source, options));
  EXPECT_EQ(result.end, RunResult::End::kMaxSteps);
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(result.last.step, 3);
  ASSERT_OK_AND_ASSIGN(result, engine->Run(source, options));
  EXPECT_EQ(result.end, RunResult::End::kSourceEnded);
  EXPECT_EQ(result.steps, 2);
  EXPECT_EQ(result.last.step, 5);
  ASSERT_OK_AND_ASSIGN(result, engine->Run(source, options));
  EXPECT_EQ(result.steps, 0);
  options.max_steps = 0;
  ASSERT_OK_AND_ASSIGN(result, engine->Run(source, options));
  EXPECT_EQ(result.end, RunResult::End::kMaxSteps);
}

TEST(Run, CancelFromAnotherThreadEndsItWithTheReason) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  IndexedSource source = Batches(IndexedSource::kEndless);
  absl::StatusOr<RunResult> result;
  std::thread runner([&] { result = engine->Run(source); });
  while (source.next() < 5) std::this_thread::yield();
  engine->Cancel(absl::CancelledError("the host is busy"));
  runner.join();
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled, HasSubstr("the host is busy")));
  EXPECT_EQ(source.next(), engine->step());
  EXPECT_THAT(engine->Step(Gpt2Batch(1, 1)), IsOk());
}

TEST(Run, RequestStopEndsItAfterTheStep) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  IndexedSource source = Batches(IndexedSource::kEndless);
  engine->RequestStop();  // nothing runs: no effect
  RunOptions options;
  options.on_step = [&](const StepResult& step) {
    if (step.step == 3) engine->RequestStop();
    return absl::OkStatus();
  };
  ASSERT_OK_AND_ASSIGN(const RunResult result, engine->Run(source, options));
  EXPECT_EQ(result.end, RunResult::End::kStopRequested);
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(source.next(), 3);
}

TEST(Run, AnErrorOfTheCallbackEndsItAndComesOut) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  IndexedSource source = Batches(IndexedSource::kEndless);
  RunOptions options;
  options.on_step = [](const StepResult&) { return absl::DataLossError("mine"); };
  EXPECT_THAT(engine->Run(source, options), StatusIs(absl::StatusCode::kDataLoss, "mine"));
  EXPECT_EQ(engine->step(), 1);
  EXPECT_EQ(source.next(), 1);  // that step was done
}

// Fails once, where it stands for the third batch.
class StumblingSource : public IndexedSource {
 public:
  using IndexedSource::IndexedSource;
  absl::StatusOr<absl::optional<Batch>> Next() override {
    if (next() == 2 && !std::exchange(stumbled_, true)) return absl::UnavailableError("the disk is gone");
    return IndexedSource::Next();
  }

 private:
  bool stumbled_ = false;
};

TEST(Run, AnErrorOfTheSourceComesOutAndTheNextRunGoesOn) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  StumblingSource source(4, [](int64_t i) { return Gpt2Batch(2, static_cast<int32_t>(i)); });
  EXPECT_THAT(engine->Run(source), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the disk is gone")));
  EXPECT_EQ(engine->step(), 2);
  ASSERT_OK_AND_ASSIGN(const RunResult result, engine->Run(source));
  EXPECT_EQ(result.last.step, 4);
}

TEST(Run, AStepThatFailsGivesItsBatchBack) {
  int forwards = 0;
  const auto make = [&](int failing) {
    return Make(AdamWConfig(),
                WithHook(MakeGpt2(TinyGpt2(0.1)), 1, [&forwards, failing](HookBlock::Pass pass) {
                  if (pass == HookBlock::Pass::kForward && ++forwards == failing) {
                    return absl::UnavailableError("once");
                  }
                  return absl::OkStatus();
                }));
  };
  const auto stumbling = make(3);
  IndexedSource source = Batches(5);
  EXPECT_THAT(stumbling->Run(source), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("once")));
  EXPECT_EQ(source.next(), 2);
  ASSERT_THAT(stumbling->Run(source), IsOk());
  EXPECT_EQ(forwards, 6);

  const auto plain = make(-1);
  IndexedSource same = Batches(5);
  ASSERT_THAT(plain->Run(same), IsOk());
  EXPECT_EQ(stumbling->step(), 5);
  EXPECT_EQ(Weights(*stumbling), Weights(*plain));
}

TEST(Run, ASourceThatCanNotGoBackIsPartOfTheError) {
  class Forward : public IndexedSource {
   public:
    using IndexedSource::IndexedSource;
    absl::Status Restore(absl::string_view) override { return absl::UnimplementedError("only forward"); }
  };
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  Forward source(1, [](int64_t) { return Gpt2Batch(2, 1, /*with_targets=*/false); });
  EXPECT_THAT(engine->Run(source), StatusIs(absl::StatusCode::kInvalidArgument,
                                            AllOf(HasSubstr("\"targets\""), HasSubstr("only forward"))));
}

class CountingSink : public MetricSink {
 public:
  absl::Status Report(const StepResult& step) override {
    steps.push_back(step.step);
    return step.step == 3 ? absl::UnavailableError("the disk is full") : absl::OkStatus();
  }
  std::vector<int64_t> steps;
};

TEST(Run, ASinkSeesEveryStepAndItsErrorEndsRunButNotStep) {
  CountingSink sink;
  Environment environment;
  environment.metrics = &sink;
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()), environment);
  IndexedSource source = Batches(5);
  EXPECT_THAT(engine->Run(source),
              StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr("step 3"), HasSubstr("full"))));
  EXPECT_THAT(sink.steps, ElementsAre(1, 2, 3));
  EXPECT_EQ(engine->step(), 3);

  CountingSink other;
  environment.metrics = &other;
  const auto stepping = Make(SgdConfig(), MakeGpt2(TinyGpt2()), environment);
  for (int i = 1; i <= 4; ++i) EXPECT_THAT(stepping->Step(Gpt2Batch(2, i)), IsOk());
  EXPECT_THAT(other.steps, ElementsAre(1, 2, 3, 4));
}

// Runs that save into "c".
class SavingRun : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> MakeSaving(int64_t every_steps, bool read_only = false) {
    EngineConfig config = SgdConfig();
    config.mutable_checkpoint()->set_directory("c");
    config.mutable_checkpoint()->set_every_steps(every_steps);
    config.mutable_checkpoint()->set_read_only(read_only);
    Environment environment;
    environment.files = &files_;
    return Make(config, MakeGpt2(TinyGpt2()), environment);
  }
  RunOptions NotingSaves(int64_t max_steps) {
    RunOptions options;
    options.max_steps = max_steps;
    options.on_checkpoint = [this](const SaveReport& report) {
      saved_.push_back(report.step);
      return absl::OkStatus();
    };
    return options;
  }
  void FailAllSaves() {
    FaultPlan plan;
    plan.fail_at = 0;
    plan.crash = true;
    plan.error = absl::UnavailableError("the disk is gone");
    files_.SetPlan(plan);
  }

  MemoryFileSystem disk_;
  FaultyFileSystem files_{disk_};
  std::vector<int64_t> saved_;
  IndexedSource source_ = Batches(IndexedSource::kEndless);
};

TEST_F(SavingRun, SavesOnceAtAnEndThatIsAlsoASavingStep) {
  const auto engine = MakeSaving(2);
  ASSERT_THAT(engine->Run(source_, NotingSaves(4)), IsOk());
  EXPECT_THAT(saved_, ElementsAre(2, 4));
}

TEST_F(SavingRun, AStopIsAnEndLikeAnyOther) {
  const auto engine = MakeSaving(0);
  RunOptions options = NotingSaves(10);
  options.on_step = [&](const StepResult&) {
    engine->RequestStop();
    return absl::OkStatus();
  };
  ASSERT_THAT(engine->Run(source_, options), IsOk());
  EXPECT_THAT(saved_, ElementsAre(1));
}

TEST_F(SavingRun, WithoutAStepSavesNothing) {
  const auto engine = MakeSaving(1);
  ASSERT_THAT(engine->Run(source_, NotingSaves(0)), IsOk());
  EXPECT_THAT(saved_, ElementsAre());
}

TEST_F(SavingRun, AReadOnlyDirectoryIsNotSavedInto) {
  ASSERT_THAT(MakeSaving(1)->Run(source_, NotingSaves(1)), IsOk());
  const auto reader = MakeSaving(0, /*read_only=*/true);
  ASSERT_THAT(reader->Restore(), IsOk());
  ASSERT_THAT(reader->Run(source_, NotingSaves(1)), IsOk());
  EXPECT_THAT(saved_, ElementsAre(1));
  EXPECT_THAT(reader->Save(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(SavingRun, AnErrorEndsItWithoutASaveButWaitsForTheOneThatIsBeingWritten) {
  const auto engine = MakeSaving(2);
  RunOptions options = NotingSaves(10);
  options.on_step = [](const StepResult& step) {
    return step.step == 3 ? absl::AbortedError("mine") : absl::OkStatus();
  };
  EXPECT_THAT(engine->Run(source_, options), StatusIs(absl::StatusCode::kAborted, "mine"));
  EXPECT_THAT(saved_, ElementsAre(2));
  ASSERT_OK_AND_ASSIGN(const RestoreResult restored, engine->Restore());
  EXPECT_EQ(restored.step, 2);
}

TEST_F(SavingRun, AnErrorDoesNotHideThatASaveFailedToo) {
  const auto engine = MakeSaving(2);
  FailAllSaves();
  RunOptions options = NotingSaves(10);
  options.on_step = [](const StepResult& step) {
    return step.step == 3 ? absl::AbortedError("mine") : absl::OkStatus();
  };
  EXPECT_THAT(engine->Run(source_, options),
              StatusIs(absl::StatusCode::kAborted,
                       AllOf(HasSubstr("mine"), HasSubstr("step 2"), HasSubstr("the disk is gone"))));
}

TEST_F(SavingRun, ASaveThatFailsEndsItBeforeTheNextSaveAndTheEngineGoesOn) {
  const auto engine = MakeSaving(2);
  FailAllSaves();
  EXPECT_THAT(engine->Run(source_, NotingSaves(10)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the disk is gone")));
  EXPECT_GE(engine->step(), 3);
  EXPECT_LE(engine->step(), 4);
  EXPECT_EQ(source_.next(), engine->step());
  files_.SetPlan({});
  const int64_t done = engine->step();
  ASSERT_THAT(engine->Run(source_, NotingSaves(1)), IsOk());
  EXPECT_THAT(saved_.back(), done + 1);
}

TEST_F(SavingRun, AnErrorOfOnCheckpointEndsItAndComesOut) {
  const auto engine = MakeSaving(1);
  RunOptions options;
  options.on_checkpoint = [](const SaveReport&) { return absl::AbortedError("mine"); };
  EXPECT_THAT(engine->Run(source_, options), StatusIs(absl::StatusCode::kAborted, "mine"));
  EXPECT_LE(engine->step(), 2);
}

TEST_F(SavingRun, ASaveOfTheHostBeforeItIsEndedFirst) {
  const auto engine = MakeSaving(1);
  ASSERT_OK_AND_ASSIGN(const SaveHandle first, engine->Save(&source_));
  ASSERT_THAT(engine->Run(source_, NotingSaves(1)), IsOk());
  EXPECT_TRUE(first.done());
  EXPECT_THAT(first.Wait(), IsOk());
  EXPECT_THAT(saved_, ElementsAre(1));
}

}  // namespace
}  // namespace armature
