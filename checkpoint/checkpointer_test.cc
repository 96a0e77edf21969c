#include "armature/checkpoint/checkpointer.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/faulty_file_system.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/posix_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/checkpoint/checkpointer_test_state.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kRoot[] = "/runs/1/checkpoints";

std::unique_ptr<Checkpointer> Open(FileSystem& files, CheckpointOptions options = {},
                                   absl::string_view root = kRoot) {
  absl::StatusOr<std::unique_ptr<Checkpointer>> checkpointer =
      Checkpointer::Open(files, root, std::move(options));
  EXPECT_THAT(checkpointer, IsOk());
  return checkpointer.ok() ? *std::move(checkpointer) : nullptr;
}

absl::StatusOr<SaveReport> SaveAndWait(Checkpointer& checkpointer, int64_t step, TestModel model) {
  const absl::StatusOr<SaveHandle> save = checkpointer.Save(step, model.Arrays(), TestState(step));
  if (!save.ok()) return save.status();
  return save->Wait();
}

TEST(Checkpointer, RestoresWhatWasSaved) {
  for (const bool background : {true, false}) {
    MemoryFileSystem files;
    CheckpointOptions options;
    options.background = background;
    options.config = "layers: 2";
    const std::unique_ptr<Checkpointer> checkpointer = Open(files, options);
    TestModel saved(7);
    ASSERT_OK_AND_ASSIGN(const SaveHandle save, checkpointer->Save(30, saved.Arrays(), TestState(30)));
    ASSERT_OK_AND_ASSIGN(const SaveReport report, save.Wait());
    EXPECT_TRUE(save.done());
    EXPECT_EQ(report.step, 30);
    EXPECT_THAT(report.cleanup, IsOk());
    EXPECT_THAT(files.List(report.directory),
                IsOkAndHolds(ElementsAre("MANIFEST", "rank-00000.safetensors")));

    TestModel loaded;
    ASSERT_OK_AND_ASSIGN(const RestoredCheckpoint restored, checkpointer->Restore(30, loaded.Arrays()));
    EXPECT_TRUE(loaded == saved);
    EXPECT_EQ(restored.step, 30);
    EXPECT_EQ(restored.state.SerializeAsString(), TestState(30).SerializeAsString());
    EXPECT_EQ(restored.config, "layers: 2");
    EXPECT_THAT(restored.skipped, IsEmpty());
  }
}

TEST(Checkpointer, WorksOnTheMachinesOwnFiles) {
  PosixFileSystem files;
  const std::string root = ::testing::TempDir() + "/checkpointer_test/a/b";
  ASSERT_THAT(files.RemoveTree(root), IsOk());
  TestModel saved(3), loaded;
  {
    const std::unique_ptr<Checkpointer> checkpointer = Open(files, {}, root);
    for (int64_t step : {1, 2, 2, 3, 4}) ASSERT_THAT(SaveAndWait(*checkpointer, step, saved), IsOk());
  }
  const std::unique_ptr<Checkpointer> checkpointer = Open(files, {}, root);
  EXPECT_THAT(checkpointer->Steps(), IsOkAndHolds(ElementsAre(2, 3, 4)));
  EXPECT_THAT(files.List(root),
              IsOkAndHolds(ElementsAre("LOCK", "step-00000002", "step-00000003", "step-00000004")));
  ASSERT_OK_AND_ASSIGN(const RestoredCheckpoint restored, checkpointer->RestoreLatest(loaded.Arrays()));
  EXPECT_EQ(restored.step, 4);
  EXPECT_TRUE(loaded == saved);
}

TEST(Checkpointer, SavesTheValuesOfTheMomentOfTheCall) {
  MemoryFileSystem files;
  const std::unique_ptr<Checkpointer> checkpointer = Open(files);
  TestModel model(5);
  ASSERT_OK_AND_ASSIGN(const SaveHandle save, checkpointer->Save(1, model.Arrays(), TestState(1)));
  model = TestModel(6);
  ASSERT_THAT(save.Wait(), IsOk());
  TestModel loaded;
  ASSERT_THAT(checkpointer->RestoreLatest(loaded.Arrays()), IsOk());
  EXPECT_TRUE(loaded == TestModel(5));
}

TEST(Checkpointer, DestructionEndsASave) {
  MemoryFileSystem files;
  TestModel model(5);
  absl::optional<SaveHandle> save;
  {
    const std::unique_ptr<Checkpointer> checkpointer = Open(files);
    ASSERT_OK_AND_ASSIGN(save, checkpointer->Save(1, model.Arrays(), TestState(1)));
  }
  EXPECT_TRUE(save->done());
  EXPECT_THAT(save->Wait(), IsOk());
}

TEST(Checkpointer, EmptyDirectoryIsNotFound) {
  MemoryFileSystem files;
  TestModel model;
  EXPECT_THAT(Open(files)->RestoreLatest(model.Arrays()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(kRoot)));
  EXPECT_THAT(Open(files)->Restore(3, model.Arrays()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("step 3")));
  EXPECT_THAT(Open(files)->Steps(), IsOkAndHolds(IsEmpty()));
}

TEST(Checkpointer, RetentionKeepsTheLastAndTheMilestones) {
  MemoryFileSystem files;
  CheckpointOptions options;
  options.retention.keep_last = 2;
  options.retention.keep_every = 40;
  const std::unique_ptr<Checkpointer> checkpointer = Open(files, options);
  for (int64_t step = 10; step <= 100; step += 10)
    ASSERT_THAT(SaveAndWait(*checkpointer, step, TestModel(1)), IsOk());
  EXPECT_THAT(checkpointer->Steps(), IsOkAndHolds(ElementsAre(40, 80, 90, 100)));
}

TEST(Checkpointer, SavingAStepAgainReplacesIt) {
  MemoryFileSystem files;
  const std::unique_ptr<Checkpointer> checkpointer = Open(files);
  ASSERT_THAT(SaveAndWait(*checkpointer, 5, TestModel(1)), IsOk());
  ASSERT_THAT(SaveAndWait(*checkpointer, 5, TestModel(2)), IsOk());
  TestModel loaded;
  ASSERT_THAT(checkpointer->RestoreLatest(loaded.Arrays()), IsOk());
  EXPECT_TRUE(loaded == TestModel(2));
  EXPECT_THAT(files.List(kRoot), IsOkAndHolds(ElementsAre("LOCK", "step-00000005")));
}

TEST(Checkpointer, SecondWriterIsRefusedUntilTheFirstIsGone) {
  MemoryFileSystem files;
  std::unique_ptr<Checkpointer> first = Open(files);
  EXPECT_THAT(Checkpointer::Open(files, kRoot, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("locked")));
  CheckpointOptions reader;
  reader.read_only = true;
  EXPECT_NE(Open(files, reader), nullptr);
  first.reset();
  EXPECT_NE(Open(files), nullptr);
}

TEST(Checkpointer, ReadOnlyStorageIsReadAndNotWritten) {
  MemoryFileSystem disk;
  ASSERT_THAT(SaveAndWait(*Open(disk), 5, TestModel(1)), IsOk());
  FaultPlan plan;
  plan.read_only = true;
  FaultyFileSystem files(disk, plan);
  EXPECT_THAT(Checkpointer::Open(files, kRoot, {}), StatusIs(absl::StatusCode::kFailedPrecondition));
  CheckpointOptions options;
  options.read_only = true;
  const std::unique_ptr<Checkpointer> checkpointer = Open(files, options);
  TestModel loaded;
  EXPECT_THAT(checkpointer->RestoreLatest(loaded.Arrays()), IsOk());
  EXPECT_TRUE(loaded == TestModel(1));
  EXPECT_THAT(SaveAndWait(*checkpointer, 6, loaded), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(files.mutations(), 1) << "the refused lock of the writer";
  EXPECT_THAT(Checkpointer::Open(files, "/absent", options), StatusIs(absl::StatusCode::kNotFound));
}

TEST(Checkpointer, FullDiskLeavesTheOlderStepAndNoRubbish) {
  for (int64_t free_bytes = 0;; free_bytes += 40) {
    MemoryFileSystem disk;
    FaultyFileSystem files(disk);
    const std::unique_ptr<Checkpointer> checkpointer = Open(files);
    ASSERT_THAT(SaveAndWait(*checkpointer, 1, TestModel(1)), IsOk());
    FaultPlan plan;
    plan.free_bytes = free_bytes;
    files.SetPlan(plan);
    const absl::StatusOr<SaveReport> report = SaveAndWait(*checkpointer, 2, TestModel(2));
    if (report.ok()) {
      EXPECT_GT(free_bytes, 400);
      break;
    }
    EXPECT_THAT(report, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("saving step 2")));
    EXPECT_THAT(files.List(kRoot), IsOkAndHolds(ElementsAre("LOCK", "step-00000001")));
    files.SetPlan({});
    EXPECT_THAT(SaveAndWait(*checkpointer, 2, TestModel(2)), IsOk());
  }
}

TEST(Checkpointer, ErrorOfASaveReachesWaitOrElseTheNextSave) {
  MemoryFileSystem disk;
  FaultyFileSystem files(disk);
  const std::unique_ptr<Checkpointer> checkpointer = Open(files);
  FaultPlan full;
  full.free_bytes = 0;
  TestModel model(1);

  files.SetPlan(full);
  ASSERT_OK_AND_ASSIGN(const SaveHandle waited_for, checkpointer->Save(1, model.Arrays(), TestState(1)));
  EXPECT_THAT(waited_for.Wait(), StatusIs(absl::StatusCode::kResourceExhausted));
  ASSERT_THAT(checkpointer->Save(2, model.Arrays(), TestState(2)), IsOk()) << "reported once";
  EXPECT_THAT(
      checkpointer->Save(3, model.Arrays(), TestState(3)),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the save before this one: saving step 2")));
  files.SetPlan({});
  EXPECT_THAT(SaveAndWait(*checkpointer, 3, model), IsOk());
}

TEST(Checkpointer, WhatReadsBackOtherwiseIsNotPublished) {
  MemoryFileSystem disk;
  FaultyFileSystem files(disk);
  const std::unique_ptr<Checkpointer> checkpointer = Open(files);
  ASSERT_THAT(SaveAndWait(*checkpointer, 1, TestModel(1)), IsOk());
  FaultPlan plan;
  plan.bit_flips = {{absl::StrCat(kRoot, "/step-00000002.partial/rank-00000.safetensors"), 100, 3}};
  files.SetPlan(plan);
  EXPECT_THAT(SaveAndWait(*checkpointer, 2, TestModel(2)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("reading back")));
  EXPECT_THAT(checkpointer->Steps(), IsOkAndHolds(ElementsAre(1)));
}

TEST(Checkpointer, ArraysThatContradictThemselvesAreRefused) {
  MemoryFileSystem files;
  const std::unique_ptr<Checkpointer> checkpointer = Open(files);
  TestModel model(1);
  const auto save = [&](std::vector<ShardedArray> arrays) -> absl::Status {
    const absl::StatusOr<SaveHandle> handle = checkpointer->Save(1, arrays, {});
    return handle.ok() ? handle->Wait().status() : handle.status();
  };
  std::vector<ShardedArray> arrays = model.Arrays();
  arrays[0].local.count = 5;
  EXPECT_THAT(save(arrays), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("weight")));
  arrays = model.Arrays();
  arrays[0].slice.offset = {3, 0};
  EXPECT_THAT(save(arrays),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not fit into shape [4, 3]")));
  arrays = model.Arrays();
  arrays[1].slice.offset = {1, 0};
  EXPECT_THAT(save(arrays), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("overlap")));
  arrays = model.Arrays();
  arrays[1].primary = false;
  EXPECT_THAT(save(arrays),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no slice has 6 of the 12 elements")));
  arrays = model.Arrays();
  arrays[2].primary = false;
  EXPECT_THAT(save(arrays), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tensor half")));
  arrays = model.Arrays();
  arrays[1].global_shape = {5, 3};
  EXPECT_THAT(save(arrays),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("[4, 3]"), HasSubstr("[5, 3]"))));
  arrays = model.Arrays();
  arrays[0].local.device.kind = Device::Kind::kCuda;
  EXPECT_THAT(save(arrays), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host memory")));
  arrays = model.Arrays();
  arrays[2].name = "\xFF";
  EXPECT_THAT(save(arrays), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("UTF-8")));
  EXPECT_THAT(checkpointer->Save(-1, model.Arrays(), {}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(files.List(kRoot), IsOkAndHolds(ElementsAre("LOCK")));
}

TEST(Checkpointer, ReplicasAreWrittenOnce) {
  MemoryFileSystem files;
  const std::unique_ptr<Checkpointer> checkpointer = Open(files);
  TestModel model(1), copy(1), loaded, loaded_copy;
  std::vector<ShardedArray> arrays = model.Arrays();
  for (ShardedArray& array : copy.Arrays()) {
    array.primary = false;
    arrays.push_back(array);
  }
  ASSERT_OK_AND_ASSIGN(const SaveHandle save, checkpointer->Save(1, arrays, {}));
  ASSERT_THAT(save.Wait(), IsOk());
  arrays = loaded.Arrays();
  for (const ShardedArray& array : loaded_copy.Arrays()) arrays.push_back(array);
  ASSERT_THAT(checkpointer->RestoreLatest(arrays), IsOk());
  EXPECT_TRUE(loaded == model);
  EXPECT_TRUE(loaded_copy == model);
}

TEST(Checkpointer, TensorsThatDoNotFitAreNamedAndNothingIsTouched) {
  MemoryFileSystem files;
  const std::unique_ptr<Checkpointer> checkpointer = Open(files);
  ASSERT_THAT(SaveAndWait(*checkpointer, 1, TestModel(1)), IsOk());
  TestModel loaded(9);
  const auto restore = [&](std::vector<ShardedArray> arrays) {
    const absl::Status status = checkpointer->RestoreLatest(arrays).status();
    EXPECT_TRUE(loaded == TestModel(9));
    return status;
  };
  std::vector<ShardedArray> arrays = loaded.Arrays();
  arrays[2].name = "third";
  EXPECT_THAT(restore(arrays),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("third [5] is missing in it"), HasSubstr("half [5] is only in it"),
                             HasSubstr("step-00000001"))));
  arrays = loaded.Arrays();
  arrays[0].global_shape = {2, 3};
  EXPECT_THAT(restore(arrays), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("weight has shape [4, 3] in it and [2, 3] here")));
  arrays = loaded.Arrays();
  arrays[2].local.dtype = DType::kF16;
  EXPECT_THAT(restore(arrays),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("half is bf16 in it and f16 here")));
  arrays = loaded.Arrays();
  arrays.erase(arrays.begin() + 2, arrays.end());
  EXPECT_THAT(restore(arrays),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("half [5] is only in it")));
}

TEST(Checkpointer, UnusedTensorsAreIgnoredIfAsked) {
  MemoryFileSystem files;
  const std::unique_ptr<Checkpointer> checkpointer = Open(files);
  ASSERT_THAT(SaveAndWait(*checkpointer, 1, TestModel(1)), IsOk());
  TestModel loaded(9);
  RestoreOptions options;
  options.ignore_unused = true;
  ASSERT_THAT(checkpointer->RestoreLatest({loaded.Arrays()[0]}, options), IsOk());
  EXPECT_EQ(loaded.top, TestModel(1).top);
  EXPECT_EQ(loaded.bottom, TestModel(9).bottom);
}

TEST(Checkpointer, AnotherModelsCheckpointIsRefused) {
  MemoryFileSystem files;
  CheckpointOptions options;
  options.model = "gpt2 layers=12";
  ASSERT_THAT(SaveAndWait(*Open(files, options), 1, TestModel(1)), IsOk());
  options.model = "gpt2 layers=24";
  TestModel loaded(9);
  EXPECT_THAT(
      Open(files, options)->RestoreLatest(loaded.Arrays()),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("layers=12"), HasSubstr("layers=24"))));
  EXPECT_TRUE(loaded == TestModel(9));
}

TEST(Checkpointer, AStepThatCannotBeReadIsAnErrorAndNotSkipped) {
  MemoryFileSystem disk;
  FaultyFileSystem files(disk);
  const std::unique_ptr<Checkpointer> checkpointer = Open(files);
  ASSERT_THAT(SaveAndWait(*checkpointer, 1, TestModel(1)), IsOk());
  ASSERT_THAT(disk.Remove(absl::StrCat(kRoot, "/step-00000001/rank-00000.safetensors")), IsOk());
  ASSERT_THAT(disk.MakeDirectories(absl::StrCat(kRoot, "/step-00000001/rank-00000.safetensors")), IsOk());
  TestModel loaded;
  EXPECT_THAT(checkpointer->RestoreLatest(loaded.Arrays()), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace armature
