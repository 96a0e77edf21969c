#include "armature/tensor/slice.h"

#include <numeric>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/float16.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The elements of `slice` in a row-major tensor whose elements are 0, 1, 2, ...
std::vector<float> Values(const Slice& slice, const Shape& global) {
  std::vector<float> whole(global.num_elements()), part(slice.shape.num_elements(), -1);
  std::iota(whole.begin(), whole.end(), 0.0f);
  CopyShared(WholeSlice(global), DType::kF32, reinterpret_cast<const char*>(whole.data()), slice, DType::kF32,
             reinterpret_cast<char*>(part.data()));
  return part;
}

TEST(Slice, PrintsItsRanges) {
  EXPECT_EQ((Slice{{0, 4}, {2, 4}}).ToString(), "[0:2, 4:8]");
  EXPECT_EQ(Slice().ToString(), "[]");
}

TEST(Slice, MustLieInItsTensor) {
  EXPECT_THAT(CheckSliceIn({{1, 0}, {2, 3}}, {3, 3}), IsOk());
  EXPECT_THAT(CheckSliceIn({{3, 0}, {0, 3}}, {3, 3}), IsOk()) << "empty, at the end";
  EXPECT_THAT(CheckSliceIn({{2, 0}, {2, 3}}, {3, 3}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[3, 3]")));
  EXPECT_THAT(CheckSliceIn({{-1, 0}, {2, 3}}, {3, 3}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckSliceIn({{0}, {3}}, {3, 3}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckSliceIn({{INT64_MAX, 0}, {2, 3}}, {3, 3}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Slices, TileATensorWithoutOverlapOrGap) {
  const Shape global{4, 4};
  EXPECT_THAT(
      CheckSlicesTile({{{0, 0}, {2, 4}}, {{2, 0}, {2, 1}}, {{2, 1}, {2, 3}}, {{4, 0}, {0, 4}}}, global),
      IsOk());
  EXPECT_THAT(CheckSlicesTile({{{0, 0}, {3, 4}}, {{2, 0}, {2, 4}}}, global),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[0:3, 0:4] and [2:4, 0:4] overlap")));
  EXPECT_THAT(CheckSlicesTile({{{0, 0}, {2, 4}}, {{2, 0}, {2, 3}}}, global),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no slice has 2 of the 16 elements")));
  EXPECT_THAT(CheckSlicesTile({Slice()}, Shape()), IsOk());
  EXPECT_THAT(CheckSlicesTile({Slice(), Slice()}, Shape()), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckSlicesTile({}, Shape{0, 3}), IsOk());
}

TEST(CopyShared, CopiesBoxesOfEveryRank) {
  EXPECT_THAT(Values({{}, {}}, {}), ElementsAre(0));
  EXPECT_THAT(Values({{2}, {3}}, {6}), ElementsAre(2, 3, 4));
  EXPECT_THAT(Values({{1, 1}, {2, 2}}, {3, 4}), ElementsAre(5, 6, 9, 10));
  EXPECT_THAT(Values({{0, 1, 0}, {2, 1, 2}}, {2, 3, 2}), ElementsAre(2, 3, 8, 9));
  EXPECT_THAT(Values({{1, 0, 0, 1}, {1, 2, 1, 1}}, {2, 2, 1, 2}), ElementsAre(5, 7));
}

TEST(CopyShared, LeavesTheRestAlone) {
  const float from[4] = {10, 11, 12, 13};  // [1:3, 1:3] of [4, 4]
  float to[4] = {-1, -1, -1, -1};          // [2:4, 2:4]
  CopyShared({{1, 1}, {2, 2}}, DType::kF32, reinterpret_cast<const char*>(from), {{2, 2}, {2, 2}},
             DType::kF32, reinterpret_cast<char*>(to));
  EXPECT_THAT(to, ElementsAre(13, -1, -1, -1));
}

TEST(CopyShared, FollowsStrides) {
  // Columns 2 and 3 of a [2, 4] matrix lie four apart.
  const float from[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  float to[8] = {};
  const Slice columns = {{0, 2}, {2, 2}};
  CopyShared(columns, DType::kF32, reinterpret_cast<const char*>(from + 2), columns, DType::kF32,
             reinterpret_cast<char*>(to), {4, 1});
  EXPECT_THAT(to, ElementsAre(2, 3, 6, 7, 0, 0, 0, 0));
  float back[8] = {};
  CopyShared(columns, DType::kF32, reinterpret_cast<const char*>(to), columns, DType::kF32,
             reinterpret_cast<char*>(back + 2), {}, {4, 1});
  EXPECT_THAT(back, ElementsAre(0, 0, 2, 3, 0, 0, 6, 7));
}

TEST(CopyShared, ConvertsElements) {
  const BFloat16 from[3] = {BFloat16(1), BFloat16(2), BFloat16(3)};
  float to[2];
  CopyShared({{0}, {3}}, DType::kBF16, reinterpret_cast<const char*>(from), {{1}, {2}}, DType::kF32,
             reinterpret_cast<char*>(to));
  EXPECT_THAT(to, ElementsAre(2, 3));
}

TEST(SlicesOfFlatRange, HoldTheRangeInOrder) {
  for (const Shape& shape :
       {Shape{7}, Shape{3, 4}, Shape{2, 3, 2}, Shape{2, 1, 2, 3}, Shape{4, 0}, Shape{}}) {
    for (int64_t begin = 0; begin <= shape.num_elements(); ++begin) {
      for (int64_t end = begin; end <= shape.num_elements(); ++end) {
        std::vector<float> expected(end - begin), values;
        std::iota(expected.begin(), expected.end(), static_cast<float>(begin));
        const std::vector<Slice> slices = SlicesOfFlatRange(shape, begin, end);
        EXPECT_LE(static_cast<int>(slices.size()), std::max(2 * shape.rank() - 1, 1));
        for (const Slice& slice : slices) {
          ASSERT_THAT(CheckSliceIn(slice, shape), IsOk());
          for (float value : Values(slice, shape)) values.push_back(value);
        }
        EXPECT_EQ(values, expected) << shape << " " << begin << ":" << end;
      }
    }
  }
}

}  // namespace
}  // namespace armature
