#include "armature/data/token_file_writer.h"

#include <vector>

#include "armature/base/faulty_file_system.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/status_macros.h"
#include "armature/base/status_matchers.h"
#include "armature/data/token_file.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status Write(FileSystem& files, absl::Span<const int32_t> tokens) {
  ARMATURE_ASSIGN_OR_RETURN(const auto writer, TokenFileWriter::Create(files, "dir/a.tokens", {100}));
  ARMATURE_RETURN_IF_ERROR(writer->Append(tokens));
  return writer->Finish();
}

absl::StatusOr<std::vector<int32_t>> ReadAll(FileSystem& files) {
  ARMATURE_ASSIGN_OR_RETURN(const TokenFile file, TokenFile::Open(files, "dir/a.tokens"));
  ARMATURE_RETURN_IF_ERROR(file.Verify());
  std::vector<int32_t> tokens(file.num_tokens());
  ARMATURE_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(tokens)));
  return tokens;
}

TEST(TokenFileWriter, RefusesImpossibleKindsOfToken) {
  MemoryFileSystem files;
  for (const TokenFileOptions& options :
       {TokenFileOptions{0}, TokenFileOptions{-5}, TokenFileOptions{65537, 16}, TokenFileOptions{100, 8},
        TokenFileOptions{int64_t{1} << 31}}) {
    EXPECT_THAT(TokenFileWriter::Create(files, "a", options),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a: ")));
  }
  EXPECT_THAT(files.List(""), IsOkAndHolds(ElementsAre()));
}

TEST(TokenFileWriter, ATokenOutsideTheVocabularyIsRefusedAndTheRestGoesOn) {
  MemoryFileSystem files;
  ASSERT_THAT(files.MakeDirectories("dir"), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto writer, TokenFileWriter::Create(files, "dir/a.tokens", {100}));
  EXPECT_THAT(writer->Append({1, 100}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("token 100")));
  EXPECT_THAT(writer->Append({-1}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("token -1")));
  EXPECT_THAT(writer->Append({99}), IsOk());
  EXPECT_EQ(writer->num_tokens(), 1);
  EXPECT_THAT(writer->Finish(), IsOk());
  EXPECT_THAT(ReadAll(files), IsOkAndHolds(ElementsAre(99)));
}

TEST(TokenFileWriter, CallsOutOfOrderAreRefused) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const auto writer, TokenFileWriter::Create(files, "a", {100}));
  EXPECT_THAT(writer->Publish(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not sealed")));
  EXPECT_THAT(writer->Seal(), IsOk());
  EXPECT_THAT(writer->Append({1}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("sealed")));
  EXPECT_THAT(writer->Seal(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(writer->Publish(), IsOk());
}

TEST(TokenFileWriter, AnUnfinishedFileLeavesNothing) {
  MemoryFileSystem files;
  {
    ASSERT_OK_AND_ASSIGN(const auto writer, TokenFileWriter::Create(files, "a", {100}));
    EXPECT_THAT(writer->Append({1}), IsOk());
    EXPECT_THAT(files.List(""), IsOkAndHolds(ElementsAre("a.partial")));
  }
  EXPECT_THAT(files.List(""), IsOkAndHolds(ElementsAre()));
}

TEST(TokenFileWriter, AFullDiskLeavesTheOldFileAndNoOther) {
  MemoryFileSystem memory;
  ASSERT_THAT(memory.MakeDirectories("dir"), IsOk());
  ASSERT_THAT(Write(memory, {1}), IsOk());
  for (int64_t free_bytes : {0, 64, 67, 80, 101}) {
    FaultPlan plan;
    plan.free_bytes = free_bytes;
    FaultyFileSystem files(memory, plan);
    EXPECT_THAT(Write(files, {2, 3}),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("dir/a.tokens")));
    EXPECT_THAT(memory.List("dir"), IsOkAndHolds(ElementsAre("a.tokens")));
    EXPECT_THAT(ReadAll(memory), IsOkAndHolds(ElementsAre(1)));
  }
}

TEST(TokenFileWriter, ACrashAtAnyPointLeavesTheOldFileOrTheNewOne) {
  for (CrashKeeps keeps : {CrashKeeps::kEverything, CrashKeeps::kSyncedOnly, CrashKeeps::kUnsyncedEntries}) {
    bool crashed = true;
    for (int64_t point = 0; crashed; ++point) {
      MemoryFileSystem disk;
      ASSERT_THAT(disk.MakeDirectories("dir"), IsOk());
      ASSERT_THAT(disk.SyncDirectory("/"), IsOk());
      ASSERT_THAT(Write(disk, {1}), IsOk());
      FaultPlan plan;
      plan.fail_at = point;
      plan.torn_bytes = 5;
      plan.crash = true;
      FaultyFileSystem files(disk, plan);
      const bool written = Write(files, {2, 3}).ok();
      crashed = files.fault_happened();
      EXPECT_EQ(written, !crashed);
      disk.Crash(keeps);
      ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> left, ReadAll(disk));
      if (written || left.size() != 1) {
        EXPECT_THAT(left, ElementsAre(2, 3));
      } else {
        EXPECT_THAT(left, ElementsAre(1));
      }
    }
  }
}

}  // namespace
}  // namespace armature
