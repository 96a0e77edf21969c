#include "armature/checkpoint/step_directories.h"

#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/checkpoint/durable_files.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(StepDirectories, ListsByNumberAndPassesOverOtherNames) {
  MemoryFileSystem files;
  for (const char* name : {"step-00000009", "step-00000010", "step-123456789", "step-7", "step--0000001",
                           "step-0000000a", "step-00000011.partial", "step-00000010.old", "step-00000012.old",
                           "step-00000012.old.old", "step-99999999999999999999", "other"}) {
    ASSERT_THAT(files.MakeDirectories(std::string("/r/") + name), IsOk());
  }
  ASSERT_OK_AND_ASSIGN(const StepListing listing, ListSteps(files, "/r"));
  EXPECT_THAT(listing.complete,
              ElementsAre(Pair(9, "step-00000009"), Pair(10, "step-00000010"), Pair(12, "step-00000012.old"),
                          Pair(123456789, "step-123456789")));
  EXPECT_THAT(listing.leftovers, ElementsAre("step-00000010.old", "step-00000011.partial"));
}

TEST(DurableDirectories, SurviveACrash) {
  MemoryFileSystem files;
  ASSERT_THAT(MakeDurableDirectories(files, "/a/b/c"), IsOk());
  ASSERT_THAT(MakeDurableDirectories(files, "relative/d/"), IsOk());
  files.Crash(CrashKeeps::kSyncedOnly);
  EXPECT_THAT(files.Stat("/a/b/c"), IsOk());
  EXPECT_THAT(files.Stat("relative/d"), IsOk());
}

TEST(ParentDirectory, IsThatOfTheLastComponent) {
  EXPECT_EQ(ParentDirectory("a/b"), "a");
  EXPECT_EQ(ParentDirectory("a/b//"), "a");
  EXPECT_EQ(ParentDirectory("/b"), "/");
  EXPECT_EQ(ParentDirectory("b"), ".");
  EXPECT_EQ(ParentDirectory("/"), "/");
}

}  // namespace
}  // namespace armature
