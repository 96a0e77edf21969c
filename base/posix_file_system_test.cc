#include "armature/base/posix_file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "armature/base/file_system_conformance.h"
#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

class PosixFixture final : public FileSystemFixture {
 public:
  PosixFixture() {
    std::string name = ::testing::TempDir() + "/armature_XXXXXX";
    root_ = ::mkdtemp(&name[0]);
  }
  ~PosixFixture() override { EXPECT_THAT(files_.RemoveTree(root_), IsOk()); }
  FileSystem& files() override { return files_; }
  std::string root() override { return root_; }

 private:
  PosixFileSystem files_;
  std::string root_;
};

std::unique_ptr<FileSystemFixture> MakePosixFixture() { return std::make_unique<PosixFixture>(); }

INSTANTIATE_TEST_SUITE_P(Posix, FileSystemConformance, ::testing::Values(&MakePosixFixture));

TEST(PosixFileSystem, MapsMoreThanFourGibibytes) {
  PosixFixture fixture;
  const std::string path = fixture.root() + "/sparse";
  // A hole: takes no disk and no memory.
  constexpr int64_t kSize = (int64_t{5} << 30) + 1;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0644);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::pwrite(fd, "z", 1, kSize - 1), 1);
  ::close(fd);
  ASSERT_OK_AND_ASSIGN(const FileInfo info, fixture.files().Stat(path));
  EXPECT_EQ(info.size_bytes, kSize);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MappedFile> mapped, fixture.files().Map(path));
  ASSERT_EQ(mapped->bytes().size(), kSize);
  EXPECT_EQ(mapped->bytes().back(), 'z');
  EXPECT_EQ(mapped->bytes()[kSize - 2], '\0');
}

TEST(PosixFileSystem, ReadsFilesThatDoNotKnowTheirSize) {
  ASSERT_OK_AND_ASSIGN(const std::string status, PosixFileSystem().Read("/proc/self/status"));
  EXPECT_THAT(status, HasSubstr("Pid:"));
}

TEST(PosixFileSystem, NewFilesAreReadableByAllWithinTheUmask) {
  PosixFixture fixture;
  ASSERT_THAT(fixture.files().Create(fixture.root() + "/a"), IsOk());
  struct stat info;
  ASSERT_EQ(::stat((fixture.root() + "/a").c_str(), &info), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0644 & ~mask);
}

TEST(PosixFileSystem, AFullDiskIsResourceExhausted) {
  PosixFileSystem files;
  const auto file = files.Append("/dev/full");
  if (!file.ok()) GTEST_SKIP() << file.status();
  EXPECT_THAT((*file)->Append("x"), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("/dev/full")));
  // And the first error stays.
  EXPECT_THAT((*file)->Append(""), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT((*file)->Close(), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(PosixFileSystem, RemoveTreeDoesNotFollowLinks) {
  PosixFixture kept;
  PosixFixture removed;
  ASSERT_THAT(kept.files().Create(kept.root() + "/a"), IsOk());
  ASSERT_EQ(::symlink(kept.root().c_str(), (removed.root() + "/link").c_str()), 0);
  EXPECT_THAT(removed.files().RemoveTree(removed.root()), IsOk());
  EXPECT_THAT(kept.files().Stat(kept.root() + "/a"), IsOk());
}

TEST(PosixFileSystem, TheLockOfADeadProcessIsFree) {
  PosixFixture fixture;
  const std::string path = fixture.root() + "/lock";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = fixture.files().Lock(path);
    const char answer = lock.ok() ? 'y' : 'n';
    if (::write(ready[1], &answer, 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_THAT(fixture.files().Lock(path), StatusIs(absl::StatusCode::kFailedPrecondition));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(fixture.files().Lock(path), IsOk());
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace armature
