#include "armature/checkpoint/weights_file.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "armature/base/faulty_file_system.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<NamedArray>& Arrays() {
  static const auto& arrays = *new std::vector<NamedArray>{{"w", DType::kF32, Shape{2}, "12345678"},
                                                           {"b", DType::kU8, Shape{3}, "abc"},
                                                           {"none", DType::kF64, Shape{0, 2}, ""}};
  return arrays;
}

TEST(WeightsFile, ReadsWhatItWrote) {
  MemoryFileSystem files;
  ASSERT_THAT(WriteSafetensors(files, "/w.safetensors", Arrays(), {{"format", "pt"}}), IsOk());
  ASSERT_OK_AND_ASSIGN(const NamedArrays read, ReadSafetensors(files, "/w.safetensors"));
  ASSERT_THAT(files.Remove("/w.safetensors"), IsOk());  // the bytes live on
  ASSERT_EQ(read.arrays().size(), 3u);
  EXPECT_EQ(read.arrays()[0].name, "b");
  for (const NamedArray& array : Arrays()) {
    ASSERT_OK_AND_ASSIGN(const NamedArray found, read.Find(array.name));
    EXPECT_EQ(found.bytes, array.bytes);
    EXPECT_EQ(found.shape, array.shape);
    EXPECT_EQ(found.dtype, array.dtype);
  }
  EXPECT_EQ(read.metadata().at("format"), "pt");
  EXPECT_THAT(read.Find("v"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("v")));
}

TEST(WeightsFile, BytesDoNotDependOnTheOrder) {
  MemoryFileSystem files;
  std::vector<NamedArray> reversed = Arrays();
  std::reverse(reversed.begin(), reversed.end());
  ASSERT_THAT(WriteSafetensors(files, "/1", Arrays()), IsOk());
  ASSERT_THAT(WriteSafetensors(files, "/2", reversed), IsOk());
  EXPECT_EQ(*files.Read("/1"), *files.Read("/2"));
}

TEST(WeightsFile, IsWholeOrAbsentWhereverTheWriterDies) {
  for (int64_t point = 0;; ++point) {
    MemoryFileSystem disk;
    ASSERT_THAT(WriteSafetensors(disk, "/w", {{"old", DType::kU8, Shape{1}, "o"}}), IsOk());
    FaultPlan plan;
    plan.fail_at = point;
    plan.crash = true;
    FaultyFileSystem files(disk, plan);
    const absl::Status status = WriteSafetensors(files, "/w", Arrays());
    disk.Crash(CrashKeeps::kSyncedOnly);
    ASSERT_OK_AND_ASSIGN(const NamedArrays read, ReadSafetensors(disk, "/w"));
    EXPECT_EQ(read.arrays().size(), status.ok() ? 3u : 1u) << point;
    if (!files.fault_happened()) break;
  }
}

TEST(WeightsFile, FullDiskLeavesNothing) {
  MemoryFileSystem disk;
  FaultPlan plan;
  plan.free_bytes = 100;
  FaultyFileSystem files(disk, plan);
  EXPECT_THAT(WriteSafetensors(files, "/w", Arrays()), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(disk.List("/"), IsOkAndHolds(ElementsAre()));
}

TEST(WeightsFile, NamesThePathAndTheArrayInErrors) {
  MemoryFileSystem files;
  EXPECT_THAT(
      WriteSafetensors(files, "/w", {{"w", DType::kF32, Shape{2}, "1234"}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/w: array w: 4 bytes for shape [2] of f32")));
  EXPECT_THAT(ReadSafetensors(files, "/absent"), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const auto file, files.Create("/broken"));
  EXPECT_THAT(ReadSafetensors(files, "/broken"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/broken: the file is empty")));
}

}  // namespace
}  // namespace armature
