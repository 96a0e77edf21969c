#include "armature/base/faulty_file_system.h"

#include "armature/base/file_system_conformance.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/status_macros.h"
#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

class FaultyFixture final : public FileSystemFixture {
 public:
  FileSystem& files() override { return faulty_; }
  std::string root() override { return ""; }

 private:
  MemoryFileSystem memory_;
  FaultyFileSystem faulty_{memory_};
};

std::unique_ptr<FileSystemFixture> MakeFaultyFixture() { return std::make_unique<FaultyFixture>(); }

INSTANTIATE_TEST_SUITE_P(Faulty, FileSystemConformance, ::testing::Values(&MakeFaultyFixture));

// Replaces "a" in the way that survives crashes; with `careless`, without syncing the bytes.
absl::Status Replace(FileSystem& files, absl::string_view bytes, bool careless = false) {
  {
    ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.Create("a.tmp"));
    ARMATURE_RETURN_IF_ERROR(file->Append(bytes));
    if (!careless) ARMATURE_RETURN_IF_ERROR(file->Sync());
    ARMATURE_RETURN_IF_ERROR(file->Close());
  }
  ARMATURE_RETURN_IF_ERROR(files.Rename("a.tmp", "a"));
  return files.SyncDirectory("/");
}

constexpr int64_t kReplaceMutations = 6;  // create, append, sync, close, rename, sync directory

FaultPlan FailAt(int64_t number) {
  FaultPlan plan;
  plan.fail_at = number;
  return plan;
}

TEST(FaultyFileSystem, CountsMutationsAndNotReads) {
  MemoryFileSystem memory;
  FaultyFileSystem files(memory);
  ASSERT_THAT(Replace(files, "x"), IsOk());
  EXPECT_THAT(files.Read("a"), IsOkAndHolds("x"));
  EXPECT_EQ(files.mutations(), kReplaceMutations);
  EXPECT_FALSE(files.fault_happened());
}

TEST(FaultyFileSystem, EachOperationFailsOnceAndTheNextSucceeds) {
  for (int64_t number = 0; number < kReplaceMutations; ++number) {
    MemoryFileSystem memory;
    FaultPlan plan = FailAt(number);
    plan.error = absl::PermissionDeniedError("no");
    FaultyFileSystem files(memory, plan);
    EXPECT_THAT(Replace(files, "x"), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("no")))
        << number;
    EXPECT_TRUE(files.fault_happened());
    EXPECT_THAT(Replace(files, "x"), IsOk());
    EXPECT_THAT(files.Read("a"), IsOkAndHolds("x"));
  }
}

TEST(FaultyFileSystem, AfterACrashNothingWorks) {
  MemoryFileSystem memory;
  FaultPlan plan = FailAt(2);
  plan.crash = true;
  FaultyFileSystem files(memory, plan);
  ASSERT_OK_AND_ASSIGN(const auto file, files.Create("a"));
  EXPECT_THAT(file->Append("x"), IsOk());
  EXPECT_FALSE(file->Sync().ok());
  EXPECT_FALSE(file->Append("y").ok());
  EXPECT_FALSE(files.Read("a").ok());
  EXPECT_FALSE(files.Stat("a").ok());
  EXPECT_FALSE(files.Rename("a", "b").ok());
  files.SetPlan({});
  EXPECT_THAT(files.Read("a"), IsOkAndHolds("x"));
}

TEST(FaultyFileSystem, ATornWriteLandsInPart) {
  MemoryFileSystem memory;
  FaultPlan plan = FailAt(1);
  plan.torn_bytes = 3;
  FaultyFileSystem files(memory, plan);
  EXPECT_FALSE(Replace(files, "abcdef").ok());
  EXPECT_THAT(files.Read("a.tmp"), IsOkAndHolds("abc"));
}

TEST(FaultyFileSystem, AFullDiskTakesWhatFits) {
  MemoryFileSystem memory;
  FaultPlan plan;
  plan.free_bytes = 5;
  FaultyFileSystem files(memory, plan);
  ASSERT_OK_AND_ASSIGN(const auto file, files.Create("a"));
  EXPECT_THAT(file->Append("abc"), IsOk());
  EXPECT_THAT(file->Append("def"), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("a")));
  EXPECT_THAT(file->Append("g"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(files.Read("a"), IsOkAndHolds("abcde"));
}

TEST(FaultyFileSystem, ReadOnlyRefusesEveryMutation) {
  MemoryFileSystem memory;
  ASSERT_THAT(Replace(memory, "x"), IsOk());
  FaultPlan plan;
  plan.read_only = true;
  FaultyFileSystem files(memory, plan);
  for (const absl::Status& status :
       {files.Create("b").status(), files.Append("a").status(), files.MakeDirectories("d"),
        files.Rename("a", "b"), files.Remove("a"), files.RemoveTree("a"), files.SyncDirectory("/"),
        files.Lock("l").status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("read-only")));
  }
  EXPECT_THAT(files.Read("a"), IsOkAndHolds("x"));
}

TEST(FaultyFileSystem, FlipsBitsOfWhatIsRead) {
  MemoryFileSystem memory;
  ASSERT_THAT(Replace(memory, "abc"), IsOk());
  FaultPlan plan;
  plan.bit_flips = {{"a", 1, 0}, {"a", 99, 0}, {"other", 0, 0}};
  FaultyFileSystem files(memory, plan);
  EXPECT_THAT(files.Read("a"), IsOkAndHolds("acc"));
  ASSERT_OK_AND_ASSIGN(const auto mapped, files.Map("a"));
  EXPECT_EQ(mapped->bytes(), "acc");
  EXPECT_THAT(memory.Read("a"), IsOkAndHolds("abc"));
}

// Crashes Replace at every point; returns whether "a" was always the old or the new text afterwards.
bool SurvivesEveryCrash(CrashKeeps keeps, bool careless) {
  for (int64_t point = 0;; ++point) {
    MemoryFileSystem disk;
    EXPECT_THAT(Replace(disk, "old"), IsOk());
    FaultPlan plan = FailAt(point);
    plan.torn_bytes = 1;
    plan.crash = true;
    FaultyFileSystem files(disk, plan);
    const bool replaced = Replace(files, "new", careless).ok();
    disk.Crash(keeps);
    const absl::StatusOr<std::string> left = disk.Read("a");
    if (!left.ok() || (*left != "new" && (replaced || *left != "old"))) return false;
    if (!files.fault_happened()) return true;
  }
}

TEST(FaultyFileSystem, CrashTestsTellACarefulWriterFromACarelessOne) {
  for (CrashKeeps keeps : {CrashKeeps::kEverything, CrashKeeps::kSyncedOnly, CrashKeeps::kUnsyncedEntries}) {
    EXPECT_TRUE(SurvivesEveryCrash(keeps, /*careless=*/false));
  }
  EXPECT_FALSE(SurvivesEveryCrash(CrashKeeps::kSyncedOnly, /*careless=*/true));
  EXPECT_FALSE(SurvivesEveryCrash(CrashKeeps::kUnsyncedEntries, /*careless=*/true));
}

}  // namespace
}  // namespace armature
