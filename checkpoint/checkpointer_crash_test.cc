// Crashes, torn files and flipped bits: a resume takes the last complete checkpoint, and says what it
// skipped.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/faulty_file_system.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/checkpoint/checkpointer.h"
#include "armature/checkpoint/checkpointer_test_state.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kRoot[] = "/checkpoints";

CheckpointOptions KeepOne() {
  CheckpointOptions options;
  options.retention.keep_last = 1;
  return options;
}

absl::Status SaveModel(FileSystem& files, int64_t step, TestModel model,
                       CheckpointOptions options = KeepOne()) {
  absl::StatusOr<std::unique_ptr<Checkpointer>> checkpointer = Checkpointer::Open(files, kRoot, options);
  if (!checkpointer.ok()) return checkpointer.status();
  const absl::StatusOr<SaveHandle> save = (*checkpointer)->Save(step, model.Arrays(), TestState(step));
  if (!save.ok()) return save.status();
  return save->Wait().status();
}

absl::StatusOr<RestoredCheckpoint> Resume(FileSystem& files, TestModel& into) {
  absl::StatusOr<std::unique_ptr<Checkpointer>> checkpointer = Checkpointer::Open(files, kRoot, KeepOne());
  if (!checkpointer.ok()) return checkpointer.status();
  return (*checkpointer)->RestoreLatest(into.Arrays());
}

// Saves `new_step` over the complete step 1, with the fault of `plan` at every mutating operation in turn.
void InterruptEverywhere(int64_t new_step, FaultPlan plan, CrashKeeps keeps) {
  for (plan.fail_at = 0;; ++plan.fail_at) {
    SCOPED_TRACE(absl::StrCat("step ", new_step, ", operation ", plan.fail_at, ", crash ", plan.crash,
                              ", torn ", plan.torn_bytes, ", keeps ", static_cast<int>(keeps)));
    MemoryFileSystem disk;
    ASSERT_THAT(SaveModel(disk, 1, TestModel(1)), IsOk());
    FaultyFileSystem faulty(disk, plan);
    const absl::Status saved = SaveModel(faulty, new_step, TestModel(2));
    const bool interrupted = faulty.fault_happened();
    disk.Crash(keeps);

    TestModel loaded;
    ASSERT_OK_AND_ASSIGN(const RestoredCheckpoint restored, Resume(disk, loaded));
    const bool is_new = loaded == TestModel(2);
    ASSERT_TRUE(is_new || loaded == TestModel(1));
    EXPECT_EQ(restored.step, is_new ? new_step : 1);
    EXPECT_EQ(restored.state.update_count(), restored.step);
    EXPECT_TRUE(is_new || !saved.ok()) << "Wait was OK";
    for (const std::string& line : restored.skipped) EXPECT_THAT(line, HasSubstr(": not complete"));

    // Life goes on, and the rubbish goes away.
    ASSERT_THAT(SaveModel(disk, 3, TestModel(3)), IsOk());
    EXPECT_THAT(disk.List(kRoot), IsOkAndHolds(ElementsAre("LOCK", "step-00000003")));
    if (!interrupted) {
      EXPECT_GT(plan.fail_at, 15);
      return;
    }
  }
}

TEST(CheckpointCrash, AtEveryOperationLeavesTheOldStepOrTheNew) {
  for (const CrashKeeps keeps :
       {CrashKeeps::kEverything, CrashKeeps::kSyncedOnly, CrashKeeps::kUnsyncedEntries}) {
    FaultPlan plan;
    plan.crash = true;
    InterruptEverywhere(2, plan, keeps);
    plan.torn_bytes = 11;
    InterruptEverywhere(2, plan, keeps);
  }
}

TEST(CheckpointCrash, AtEveryOperationOfAReplacementLeavesTheOldOrTheNew) {
  for (const CrashKeeps keeps :
       {CrashKeeps::kEverything, CrashKeeps::kSyncedOnly, CrashKeeps::kUnsyncedEntries}) {
    FaultPlan plan;
    plan.crash = true;
    InterruptEverywhere(1, plan, keeps);
  }
}

TEST(CheckpointCrash, OneFailingOperationLeavesTheOldStepOrTheNew) {
  FaultPlan plan;
  InterruptEverywhere(2, plan, CrashKeeps::kEverything);
  InterruptEverywhere(1, plan, CrashKeeps::kEverything);
}

TEST(CheckpointCrash, ResumeSaysWhichStepWasNotComplete) {
  MemoryFileSystem disk;
  ASSERT_THAT(SaveModel(disk, 1, TestModel(1)), IsOk());
  FaultPlan plan;
  plan.fail_at = 8;
  plan.crash = true;
  FaultyFileSystem faulty(disk, plan);
  ASSERT_THAT(SaveModel(faulty, 2, TestModel(2)), StatusIs(absl::StatusCode::kUnavailable));
  disk.Crash(CrashKeeps::kEverything);
  TestModel loaded;
  ASSERT_OK_AND_ASSIGN(const RestoredCheckpoint restored, Resume(disk, loaded));
  EXPECT_EQ(restored.step, 1);
  EXPECT_THAT(restored.skipped, ElementsAre("/checkpoints/step-00000002.partial: not complete"));
}

TEST(CheckpointCrash, FirstSaveThatDiesLeavesNoCheckpoint) {
  MemoryFileSystem disk;
  FaultPlan plan;
  plan.fail_at = 8;
  plan.crash = true;
  FaultyFileSystem faulty(disk, plan);
  ASSERT_THAT(SaveModel(faulty, 1, TestModel(1)), StatusIs(absl::StatusCode::kUnavailable));
  disk.Crash(CrashKeeps::kEverything);
  TestModel loaded;
  EXPECT_THAT(Resume(disk, loaded),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("step-00000001.partial: not complete")));
}

class DamagedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    CheckpointOptions keep_all;
    keep_all.retention.keep_last = 0;
    ASSERT_THAT(SaveModel(disk_, 1, TestModel(1), keep_all), IsOk());
    ASSERT_THAT(SaveModel(disk_, 2, TestModel(2), keep_all), IsOk());
  }

  void Write(const std::string& path, absl::string_view bytes) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file, disk_.Create(path));
    ASSERT_THAT(file->Append(bytes), IsOk());
    ASSERT_THAT(file->Close(), IsOk());
  }

  // The resume takes step 1 and gives one line on step 2, which this returns.
  std::string ResumeFromStep1(FileSystem& files) {
    TestModel loaded;
    const absl::StatusOr<RestoredCheckpoint> restored = Resume(files, loaded);
    EXPECT_THAT(restored, IsOk());
    if (!restored.ok()) return "";
    EXPECT_EQ(restored->step, 1);
    EXPECT_TRUE(loaded == TestModel(1));
    EXPECT_EQ(restored->skipped.size(), 1u);
    return restored->skipped.empty() ? "" : restored->skipped[0];
  }

  const std::string step2_ = "/checkpoints/step-00000002/";
  MemoryFileSystem disk_;
};

TEST_F(DamagedCheckpoint, FileCutByOneByteIsSkipped) {
  for (const std::string name : {"MANIFEST", "rank-00000.safetensors"}) {
    ASSERT_OK_AND_ASSIGN(const std::string bytes, disk_.Read(step2_ + name));
    Write(step2_ + name, absl::string_view(bytes).substr(0, bytes.size() - 1));
    EXPECT_THAT(ResumeFromStep1(disk_), HasSubstr("step-00000002: file " + name));
    Write(step2_ + name, "");
    EXPECT_THAT(ResumeFromStep1(disk_), HasSubstr("step-00000002: file " + name));
    ASSERT_THAT(disk_.Remove(step2_ + name), IsOk());
    EXPECT_THAT(ResumeFromStep1(disk_), HasSubstr("step-00000002: file " + name + " is missing"));
    Write(step2_ + name, bytes);
  }
}

TEST_F(DamagedCheckpoint, EveryFlippedBitIsFound) {
  for (const std::string name : {"MANIFEST", "rank-00000.safetensors"}) {
    ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Stat(step2_ + name));
    for (int64_t i = 0; i < info.size_bytes; ++i) {
      FaultPlan plan;
      plan.bit_flips = {{step2_ + name, i, static_cast<int>(i % 8)}};
      FaultyFileSystem flipped(disk_, plan);
      ASSERT_THAT(ResumeFromStep1(flipped), HasSubstr(name)) << "byte " << i;
    }
  }
}

TEST_F(DamagedCheckpoint, FlippedBitOfDataNamesTheFileAndTheTensor) {
  const std::string path = step2_ + "rank-00000.safetensors";
  ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Stat(path));
  FaultPlan plan;
  plan.bit_flips = {{path, info.size_bytes - 1, 0}};  // the narrowest elements come last
  FaultyFileSystem flipped(disk_, plan);
  TestModel loaded(9);
  ASSERT_OK_AND_ASSIGN(const auto checkpointer, Checkpointer::Open(flipped, kRoot, {}));
  EXPECT_THAT(checkpointer->Restore(2, loaded.Arrays()),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("tensor half[0:5]"), HasSubstr("file rank-00000.safetensors"))));
  EXPECT_TRUE(loaded == TestModel(9)) << "nothing is touched";
}

TEST_F(DamagedCheckpoint, AllDamagedIsDataLossAndNotAFreshStart) {
  Write(step2_ + "MANIFEST", "");
  Write("/checkpoints/step-00000001/MANIFEST", "");
  TestModel loaded;
  EXPECT_THAT(Resume(disk_, loaded), StatusIs(absl::StatusCode::kDataLoss,
                                              AllOf(HasSubstr("step-00000001"), HasSubstr("step-00000002"))));
}

TEST_F(DamagedCheckpoint, IsReplacedWhenItsStepIsSavedAgain) {
  Write(step2_ + "rank-00000.safetensors", "");
  ASSERT_THAT(SaveModel(disk_, 2, TestModel(5)), IsOk());
  TestModel loaded;
  ASSERT_OK_AND_ASSIGN(const RestoredCheckpoint restored, Resume(disk_, loaded));
  EXPECT_EQ(restored.step, 2);
  EXPECT_TRUE(loaded == TestModel(5));
  EXPECT_THAT(restored.skipped, IsEmpty());
}

}  // namespace
}  // namespace armature
