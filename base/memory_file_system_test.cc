#include "armature/base/memory_file_system.h"

#include "armature/base/file_system_conformance.h"
#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;

class MemoryFixture final : public FileSystemFixture {
 public:
  MemoryFixture() { EXPECT_THAT(files_.MakeDirectories("root"), IsOk()); }
  FileSystem& files() override { return files_; }
  std::string root() override { return "root"; }

 private:
  MemoryFileSystem files_;
};

std::unique_ptr<FileSystemFixture> MakeMemoryFixture() { return std::make_unique<MemoryFixture>(); }

INSTANTIATE_TEST_SUITE_P(Memory, FileSystemConformance, ::testing::Values(&MakeMemoryFixture));

// A file "a" of "synced" with its entry synced, and " lost" after that.
void WriteHalfSynced(MemoryFileSystem& files) {
  ASSERT_OK_AND_ASSIGN(const auto file, files.Create("a"));
  ASSERT_THAT(file->Append("synced"), IsOk());
  ASSERT_THAT(file->Sync(), IsOk());
  ASSERT_THAT(files.SyncDirectory("/"), IsOk());
  ASSERT_THAT(file->Append(" lost"), IsOk());
  ASSERT_THAT(file->Close(), IsOk());
}

TEST(MemoryFileSystemCrash, AKilledProcessLosesNothingThatItAppended) {
  MemoryFileSystem files;
  WriteHalfSynced(files);
  files.Crash(CrashKeeps::kEverything);
  EXPECT_THAT(files.Read("a"), IsOkAndHolds("synced lost"));
  // The machine may still crash later.
  files.Crash(CrashKeeps::kSyncedOnly);
  EXPECT_THAT(files.Read("a"), IsOkAndHolds("synced"));
}

TEST(MemoryFileSystemCrash, UnsyncedBytesAreLost) {
  for (CrashKeeps keeps : {CrashKeeps::kSyncedOnly, CrashKeeps::kUnsyncedEntries}) {
    MemoryFileSystem files;
    WriteHalfSynced(files);
    files.Crash(keeps);
    EXPECT_THAT(files.Read("a"), IsOkAndHolds("synced"));
  }
}

TEST(MemoryFileSystemCrash, UnsyncedEntriesAreLostOrKeptAsAsked) {
  for (CrashKeeps keeps : {CrashKeeps::kSyncedOnly, CrashKeeps::kUnsyncedEntries}) {
    const bool kept = keeps == CrashKeeps::kUnsyncedEntries;
    MemoryFileSystem files;
    WriteHalfSynced(files);
    ASSERT_THAT(files.Rename("a", "b"), IsOk());
    ASSERT_THAT(files.MakeDirectories("d"), IsOk());
    files.Crash(keeps);
    if (kept) {
      EXPECT_THAT(files.List(""), IsOkAndHolds(ElementsAre("b", "d")));
    } else {
      EXPECT_THAT(files.List(""), IsOkAndHolds(ElementsAre("a")));
    }
    EXPECT_THAT(files.Read(kept ? "b" : "a"), IsOkAndHolds("synced"));
  }
}

TEST(MemoryFileSystemCrash, ASyncedRenameOfUnsyncedBytesLeavesAnEmptyFile) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const auto file, files.Create("a"));
  ASSERT_THAT(file->Append("bytes"), IsOk());
  ASSERT_THAT(file->Close(), IsOk());
  ASSERT_THAT(files.Rename("a", "b"), IsOk());
  ASSERT_THAT(files.SyncDirectory("/"), IsOk());
  files.Crash(CrashKeeps::kSyncedOnly);
  EXPECT_THAT(files.Read("b"), IsOkAndHolds(""));
}

TEST(MemoryFileSystemCrash, RenamedDirectoriesKeepWhatIsSyncedBelow) {
  MemoryFileSystem files;
  ASSERT_THAT(files.MakeDirectories("tmp"), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto file, files.Create("tmp/a"));
  ASSERT_THAT(file->Append("x"), IsOk());
  ASSERT_THAT(file->Sync(), IsOk());
  ASSERT_THAT(files.SyncDirectory("tmp"), IsOk());
  ASSERT_THAT(files.Rename("tmp", "final"), IsOk());
  ASSERT_THAT(files.SyncDirectory(""), IsOk());
  files.Crash(CrashKeeps::kSyncedOnly);
  EXPECT_THAT(files.Read("final/a"), IsOkAndHolds("x"));
  EXPECT_THAT(files.Stat("tmp"), StatusIs(kNotFound));
}

TEST(MemoryFileSystemCrash, UnsyncedRemovalsComeBack) {
  MemoryFileSystem files;
  WriteHalfSynced(files);
  ASSERT_THAT(files.RemoveTree("a"), IsOk());
  EXPECT_THAT(files.List(""), IsOkAndHolds(IsEmpty()));
  files.Crash(CrashKeeps::kSyncedOnly);
  EXPECT_THAT(files.Read("a"), IsOkAndHolds("synced"));
}

TEST(MemoryFileSystemCrash, OpenFilesFailAndLocksAreFreed) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const auto file, files.Create("a"));
  ASSERT_OK_AND_ASSIGN(const auto lock, files.Lock("lock"));
  files.Crash(CrashKeeps::kEverything);
  EXPECT_THAT(file->Append("x"), StatusIs(absl::StatusCode::kUnavailable, ::testing::HasSubstr("a")));
  EXPECT_THAT(files.Lock("lock"), IsOk());
}

TEST(MemoryFileSystem, PathsAreTakenLexically) {
  MemoryFileSystem files;
  ASSERT_THAT(files.MakeDirectories("/x/y"), IsOk());
  ASSERT_THAT(files.Create("x//./y/../a"), IsOk());
  EXPECT_THAT(files.List("x"), IsOkAndHolds(ElementsAre("a", "y")));
}

}  // namespace
}  // namespace armature
