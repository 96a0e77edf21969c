#include "armature/tensor/mapped_memory.h"

#include <dirent.h>

#include <cstring>
#include <string>

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

int FilesIn(const std::string& directory) {
  DIR* entries = opendir(directory.c_str());
  int count = 0;
  while (const dirent* entry = readdir(entries)) count += entry->d_name[0] != '.';
  closedir(entries);
  return count;
}

TEST(MappedMemory, IsMemoryThatLeavesNoFile) {
  const std::string directory = testing::TempDir();
  const int files = FilesIn(directory);
  MappedMemory memory(directory);
  ASSERT_OK_AND_ASSIGN(void* data, memory.Acquire(100000));
  EXPECT_EQ(static_cast<char*>(data)[99999], 0);
  std::memset(data, 7, 100000);
  EXPECT_EQ(static_cast<char*>(data)[99999], 7);
  EXPECT_EQ(FilesIn(directory), files);
  memory.Release(data, 100000);
}

TEST(MappedMemory, ADirectoryThatIsNotThereIsNamed) {
  MappedMemory memory("/nowhere/at/all");
  EXPECT_THAT(memory.Acquire(10), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/at/all")));
}

TEST(MappedMemory, MoreThanTheDiskHasIsAnErrorOfAcquire) {
  MappedMemory memory(testing::TempDir());
  const absl::StatusOr<void*> data = memory.Acquire(int64_t{1} << 55);
  ASSERT_FALSE(data.ok());
  EXPECT_THAT(data.status().message(), HasSubstr(testing::TempDir()));
}

TEST(Allocator, TakesACategoryFromItsOwnMemoryOutsideOfTheLimit) {
  MappedMemory mapped(testing::TempDir());
  Allocator allocator(HostMemory(), 1000);
  allocator.SetMemoryOf(MemoryCategory::kOptimizer, mapped);
  EXPECT_FALSE(allocator.Allocate(5000, MemoryCategory::kOther).ok());
  ASSERT_OK_AND_ASSIGN(void* data, allocator.Allocate(5000, MemoryCategory::kOptimizer));
  EXPECT_EQ(allocator.reserved_bytes(), 0);
  EXPECT_EQ(allocator.counters(MemoryCategory::kOptimizer).live_bytes, 5000);
  allocator.Free(data, 5000, MemoryCategory::kOptimizer);
  EXPECT_EQ(allocator.counters(MemoryCategory::kOptimizer).live_bytes, 0);
}

}  // namespace
}  // namespace armature
