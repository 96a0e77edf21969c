#include "armature/tensor/sharding.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Sharding Part(int part, int parts, int dim, std::vector<int64_t> sections = {}, bool padded = false) {
  Sharding sharding;
  sharding.dim = dim;
  sharding.sections = std::move(sections);
  sharding.parts = parts;
  sharding.part = part;
  sharding.padded = padded;
  return sharding;
}

// "[0:4, 8:10] is [0:4, 4:6]": a slice of the whole, and of the part.
std::vector<std::string> Pieces(const Shape& shape, const Sharding& sharding) {
  std::vector<std::string> pieces;
  for (const ShardPiece& piece : PiecesOf(shape, sharding))
    pieces.push_back(absl::StrCat(piece.global.ToString(), " is ", piece.local.ToString()));
  return pieces;
}

TEST(Sharding, ATensorThatIsNotSplitIsOnePiece) {
  EXPECT_EQ(LocalShape({4, 6}, {}), (Shape{4, 6}));
  EXPECT_THAT(Pieces({4, 6}, {}), ElementsAre("[0:4, 0:6] is [0:4, 0:6]"));
  EXPECT_THAT(Pieces({}, {}), ElementsAre("[] is []"));
}

TEST(Sharding, OnePartIsTheWholeWhateverTheSections) {
  EXPECT_THAT(Pieces({4, 6}, Part(0, 1, 1, {2, 2, 2})), ElementsAre("[0:4, 0:6] is [0:4, 0:6]"));
  EXPECT_THAT(Pieces({5, 2}, Part(0, 1, 0, {}, /*padded=*/true)), ElementsAre("[0:5, 0:2] is [0:5, 0:2]"));
}

TEST(Sharding, EachSectionIsSplitByItself) {
  const Shape shape{4, 12};
  EXPECT_EQ(LocalShape(shape, Part(1, 2, 1, {4, 4, 4})), (Shape{4, 6}));
  EXPECT_THAT(
      Pieces(shape, Part(0, 2, 1, {4, 4, 4})),
      ElementsAre("[0:4, 0:2] is [0:4, 0:2]", "[0:4, 4:6] is [0:4, 2:4]", "[0:4, 8:10] is [0:4, 4:6]"));
  // Grouped queries: 4 wide q, 2 wide k and v.
  EXPECT_THAT(Pieces({8}, Part(1, 2, 0, {4, 2, 2})),
              ElementsAre("[2:4] is [0:2]", "[5:6] is [2:3]", "[7:8] is [3:4]"));
}

TEST(Sharding, PaddingIsAtTheEndOfTheLastParts) {
  const Shape shape{7, 3};
  for (int part = 0; part < 4; ++part)
    EXPECT_EQ(LocalShape(shape, Part(part, 4, 0, {}, true)), (Shape{2, 3}));
  EXPECT_THAT(Pieces(shape, Part(2, 4, 0, {}, true)), ElementsAre("[4:6, 0:3] is [0:2, 0:3]"));
  EXPECT_THAT(Pieces(shape, Part(3, 4, 0, {}, true)), ElementsAre("[6:7, 0:3] is [0:1, 0:3]"));
  EXPECT_THAT(Pieces({5, 3}, Part(3, 4, 0, {}, true)), IsEmpty());
}

TEST(Sharding, PartsTileTheWhole) {
  struct Case {
    Shape shape;
    int dim;
    std::vector<int64_t> sections;
    bool padded;
  };
  for (const Case& c : {Case{{3, 12, 2}, 1, {4, 4, 4}, false}, Case{{3, 7, 2}, 1, {}, true},
                        Case{{5, 2}, 0, {}, true}, Case{{2, 11}, 1, {7, 3, 1}, true}}) {
    for (int parts : {1, 2, 4}) {
      std::vector<Slice> slices;
      std::vector<int> times(c.shape.num_elements());
      for (int part = 0; part < parts; ++part) {
        const Sharding sharding = Part(part, parts, c.dim, c.sections, c.padded);
        ASSERT_THAT(CheckSharding(c.shape, sharding), IsOk());
        for (const ShardPiece& piece : PiecesOf(c.shape, sharding)) slices.push_back(piece.global);
        for (const ShardRun& run :
             RunsOf(c.shape, sharding, 0, LocalShape(c.shape, sharding).num_elements())) {
          for (int64_t i = 0; i < run.count; ++i) ++times[run.global + i];
        }
      }
      EXPECT_THAT(CheckSlicesTile(slices, c.shape), IsOk()) << parts << " parts";
      EXPECT_THAT(times, Each(1)) << c.shape << " in " << parts << " parts";
    }
  }
}

TEST(Sharding, RunsOfARangeAreThoseOfTheWholeCutToIt) {
  const Shape shape{2, 6};
  const Sharding half = Part(1, 2, 1, {2, 4});  // columns 1, 4 and 5
  const auto text = [&](int64_t begin, int64_t end) {
    std::vector<std::string> runs;
    for (const ShardRun& run : RunsOf(shape, half, begin, end))
      runs.push_back(absl::StrCat(run.count, " at ", run.local, " from ", run.global));
    return absl::StrJoin(runs, ", ");
  };
  EXPECT_EQ(text(0, 6), "1 at 0 from 1, 2 at 1 from 4, 1 at 3 from 7, 2 at 4 from 10");
  EXPECT_EQ(text(2, 5), "1 at 2 from 5, 1 at 3 from 7, 1 at 4 from 10");
  EXPECT_EQ(text(3, 3), "");
}

TEST(Sharding, WhatDoesNotFitIsRefusedWithTheNumbers) {
  const auto refused = [](const Shape& shape, const Sharding& sharding, const std::string& what) {
    EXPECT_THAT(
        CheckSharding(shape, sharding),
        StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(shape.ToString()), HasSubstr(what))));
  };
  refused({4, 7}, Part(0, 2, 1), "7 is not divisible by the tensor size 2");
  refused({4, 9}, Part(0, 3, 1, {3, 4, 2}), "4 is not divisible by the tensor size 3");
  refused({4, 9}, Part(0, 3, 1, {3, 3}), "3 + 3");
  refused({4, 9}, Part(0, 3, 2), "dimension 2");
  refused({4, 9}, Part(3, 3, 0), "part 3 of 3");
  EXPECT_THAT(CheckSharding({4, 7}, Part(0, 2, 1, {}, true)), IsOk());
}

}  // namespace
}  // namespace armature
