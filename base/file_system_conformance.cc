#include "armature/base/file_system_conformance.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "armature/base/status_matchers.h"

namespace armature {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

void FileSystemConformance::Write(const std::string& path, absl::string_view bytes) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file, files().Create(path));
  ASSERT_THAT(file->Append(bytes), IsOk());
  ASSERT_THAT(file->Close(), IsOk());
}

TEST_P(FileSystemConformance, ReadsBackWhatWasAppended) {
  const std::string path = Path("a");
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file, files().Create(path));
  const std::string with_zeros("\0b\0", 3);
  EXPECT_THAT(file->Append("a"), IsOk());
  EXPECT_THAT(file->Append(""), IsOk());
  EXPECT_THAT(file->Append(with_zeros), IsOk());
  EXPECT_THAT(file->Sync(), IsOk());
  EXPECT_THAT(files().Read(path), IsOkAndHolds("a" + with_zeros));
  EXPECT_THAT(file->Append("end"), IsOk());
  EXPECT_THAT(file->Close(), IsOk());
  EXPECT_THAT(files().Read(path), IsOkAndHolds("a" + with_zeros + "end"));
}

TEST_P(FileSystemConformance, ReadsBackMegabytes) {
  std::string bytes(3 << 20, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 5);
  Write(Path("large"), bytes);
  ASSERT_OK_AND_ASSIGN(const std::string read, files().Read(Path("large")));
  EXPECT_TRUE(read == bytes);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MappedFile> mapped, files().Map(Path("large")));
  EXPECT_TRUE(mapped->bytes() == bytes);
}

TEST_P(FileSystemConformance, CreateReplaces) {
  Write(Path("a"), "a long text");
  Write(Path("a"), "short");
  EXPECT_THAT(files().Read(Path("a")), IsOkAndHolds("short"));
}

TEST_P(FileSystemConformance, AppendGoesOnAtTheEnd) {
  for (const char* part : {"one", "two"}) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file, files().Append(Path("log")));
    EXPECT_THAT(file->Append(part), IsOk());
    EXPECT_THAT(file->Close(), IsOk());
  }
  EXPECT_THAT(files().Read(Path("log")), IsOkAndHolds("onetwo"));
}

TEST_P(FileSystemConformance, AClosedFileTakesNothingMore) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file, files().Create(Path("a")));
  EXPECT_THAT(file->Close(), IsOk());
  EXPECT_THAT(file->Append("x"), StatusIs(kFailedPrecondition, HasSubstr(Path("a"))));
  EXPECT_THAT(file->Sync(), StatusIs(kFailedPrecondition));
  EXPECT_THAT(file->Close(), StatusIs(kFailedPrecondition));
}

TEST_P(FileSystemConformance, EmptyFilesCanBeReadAndMapped) {
  Write(Path("empty"), "");
  EXPECT_THAT(files().Read(Path("empty")), IsOkAndHolds(""));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MappedFile> mapped, files().Map(Path("empty")));
  EXPECT_EQ(mapped->bytes(), "");
}

TEST_P(FileSystemConformance, MappedBytesOutliveTheName) {
  Write(Path("a"), "bytes");
  Write(Path("b"), "other");
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MappedFile> a, files().Map(Path("a")));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MappedFile> b, files().Map(Path("b")));
  EXPECT_THAT(files().Rename(Path("b"), Path("a")), IsOk());
  EXPECT_THAT(files().Remove(Path("a")), IsOk());
  EXPECT_EQ(a->bytes(), "bytes");
  EXPECT_EQ(b->bytes(), "other");
}

TEST_P(FileSystemConformance, AbsentFilesAreNotFoundAndNamed) {
  const std::string path = Path("absent");
  EXPECT_THAT(files().Read(path), StatusIs(kNotFound, HasSubstr(path)));
  EXPECT_THAT(files().Map(path), StatusIs(kNotFound, HasSubstr(path)));
  EXPECT_THAT(files().Stat(path), StatusIs(kNotFound, HasSubstr(path)));
  EXPECT_THAT(files().List(path), StatusIs(kNotFound, HasSubstr(path)));
  EXPECT_THAT(files().Remove(path), StatusIs(kNotFound, HasSubstr(path)));
  EXPECT_THAT(files().Rename(path, Path("b")), StatusIs(kNotFound, HasSubstr(path)));
  EXPECT_THAT(files().SyncDirectory(path), StatusIs(kNotFound, HasSubstr(path)));
}

TEST_P(FileSystemConformance, CreatingNeedsTheDirectory) {
  const std::string path = Path("absent/a");
  EXPECT_THAT(files().Create(path), StatusIs(kNotFound, HasSubstr(path)));
  EXPECT_THAT(files().Append(path), StatusIs(kNotFound, HasSubstr(path)));
  EXPECT_THAT(files().Lock(path), StatusIs(kNotFound, HasSubstr(path)));
  Write(Path("b"), "");
  EXPECT_THAT(files().Rename(Path("b"), path), StatusIs(kNotFound, HasSubstr(path)));
}

TEST_P(FileSystemConformance, AFileIsNoDirectory) {
  Write(Path("a"), "x");
  EXPECT_THAT(files().Read(Path("a/b")), StatusIs(kNotFound));
  EXPECT_THAT(files().Create(Path("a/b")), StatusIs(kNotFound));
  EXPECT_THAT(files().List(Path("a")), StatusIs(kNotFound));
  EXPECT_THAT(files().MakeDirectories(Path("a")), StatusIs(kNotFound, HasSubstr(Path("a"))));
  EXPECT_THAT(files().MakeDirectories(Path("a/b")), StatusIs(kNotFound));
}

TEST_P(FileSystemConformance, ADirectoryIsNoFile) {
  ASSERT_THAT(files().MakeDirectories(Path("d")), IsOk());
  EXPECT_THAT(files().Read(Path("d")), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(Path("d"))));
  EXPECT_THAT(files().Map(Path("d")), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(Path("d"))));
  EXPECT_THAT(files().Create(Path("d")), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(Path("d"))));
  EXPECT_FALSE(files().Remove(Path("d")).ok());
}

TEST_P(FileSystemConformance, StatTellsSizeAndKind) {
  Write(Path("a"), "four");
  ASSERT_THAT(files().MakeDirectories(Path("d")), IsOk());
  ASSERT_OK_AND_ASSIGN(const FileInfo file, files().Stat(Path("a")));
  EXPECT_EQ(file.size_bytes, 4);
  EXPECT_FALSE(file.is_directory);
  ASSERT_OK_AND_ASSIGN(const FileInfo directory, files().Stat(Path("d")));
  EXPECT_TRUE(directory.is_directory);
}

TEST_P(FileSystemConformance, ListsNamesSortedAndNotThoseBelow) {
  EXPECT_THAT(files().List(Path("")), IsOkAndHolds(IsEmpty()));
  for (const char* name : {"c", "a", "B"}) Write(Path(name), "");
  ASSERT_THAT(files().MakeDirectories(Path("b/below")), IsOk());
  EXPECT_THAT(files().List(Path("")), IsOkAndHolds(ElementsAre("B", "a", "b", "c")));
  EXPECT_THAT(files().List(Path("b")), IsOkAndHolds(ElementsAre("below")));
}

TEST_P(FileSystemConformance, MakesDirectoriesWithParentsAndAgain) {
  EXPECT_THAT(files().MakeDirectories(Path("x/y/z")), IsOk());
  EXPECT_THAT(files().MakeDirectories(Path("x/y/z")), IsOk());
  Write(Path("x/y/z/a"), "deep");
  EXPECT_THAT(files().Read(Path("x/y/z/a")), IsOkAndHolds("deep"));
  EXPECT_THAT(files().SyncDirectory(Path("x/y/z")), IsOk());
}

TEST_P(FileSystemConformance, RenameReplacesAFile) {
  Write(Path("new"), "new");
  Write(Path("old"), "old");
  EXPECT_THAT(files().Rename(Path("new"), Path("old")), IsOk());
  EXPECT_THAT(files().Read(Path("old")), IsOkAndHolds("new"));
  EXPECT_THAT(files().List(Path("")), IsOkAndHolds(ElementsAre("old")));
  EXPECT_THAT(files().Rename(Path("old"), Path("old")), IsOk());
  EXPECT_THAT(files().Read(Path("old")), IsOkAndHolds("new"));
}

TEST_P(FileSystemConformance, RenameMovesADirectoryOntoAnEmptyOneOnly) {
  ASSERT_THAT(files().MakeDirectories(Path("from/sub")), IsOk());
  Write(Path("from/sub/a"), "x");
  ASSERT_THAT(files().MakeDirectories(Path("empty")), IsOk());
  ASSERT_THAT(files().MakeDirectories(Path("full/sub")), IsOk());
  EXPECT_FALSE(files().Rename(Path("from"), Path("full")).ok());
  EXPECT_FALSE(files().Rename(Path("from"), Path("from/sub/from")).ok());
  EXPECT_THAT(files().Rename(Path("from"), Path("empty")), IsOk());
  EXPECT_THAT(files().Read(Path("empty/sub/a")), IsOkAndHolds("x"));
  EXPECT_THAT(files().Stat(Path("from")), StatusIs(kNotFound));
  EXPECT_THAT(files().Rename(Path("empty"), Path("absent")), IsOk());
  EXPECT_THAT(files().Read(Path("absent/sub/a")), IsOkAndHolds("x"));
}

TEST_P(FileSystemConformance, RemoveTreeTakesAllBelowAndNothingElse) {
  ASSERT_THAT(files().MakeDirectories(Path("d/e")), IsOk());
  Write(Path("d/e/a"), "x");
  Write(Path("dd"), "y");
  EXPECT_THAT(files().RemoveTree(Path("d")), IsOk());
  EXPECT_THAT(files().RemoveTree(Path("d")), IsOk());
  EXPECT_THAT(files().RemoveTree(Path("d/e")), IsOk());
  EXPECT_THAT(files().List(Path("")), IsOkAndHolds(ElementsAre("dd")));
}

TEST_P(FileSystemConformance, ALockHasOneHolderAtATime) {
  const std::string path = Path("lock");
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<FileLock> first, files().Lock(path));
  EXPECT_THAT(files().Lock(path), StatusIs(kFailedPrecondition, HasSubstr(path)));
  EXPECT_THAT(files().Lock(Path("another")), IsOk());
  first.reset();
  EXPECT_THAT(files().Lock(path), IsOk());
  EXPECT_THAT(files().Lock(path), IsOk());
}

TEST_P(FileSystemConformance, OfManyThreadsOneGetsTheLock) {
  std::atomic<int> holders{0};
  std::atomic<int> tried{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto lock = files().Lock(Path("lock"));
      if (lock.ok()) ++holders;
      ++tried;
      while (tried < 4) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(holders, 1);
}

TEST_P(FileSystemConformance, ThreadsWriteTheirOwnFiles) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const std::string path = Path(absl::StrCat("file", i));
      for (int round = 0; round < 20; ++round) {
        Write(path, absl::StrCat(i, "-", round));
        EXPECT_THAT(files().Read(path), IsOkAndHolds(absl::StrCat(i, "-", round)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(files().List(Path("")), IsOkAndHolds(ElementsAre("file0", "file1", "file2", "file3")));
}

}  // namespace armature
