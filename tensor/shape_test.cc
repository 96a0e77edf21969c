#include "armature/tensor/shape.h"

#include <limits>
#include <vector>

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

TEST(Shape, ScalarHasOneElement) {
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape().ToString(), "[]");
}

TEST(Shape, NegativeIndexCountsFromTheEnd) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.dim(-1), 5);
  EXPECT_EQ(shape.dim(0), 2);
  EXPECT_EQ(shape.num_rows(), 6);
  EXPECT_EQ(shape.WithDim(-2, 7), (Shape{2, 7, 5}));
  EXPECT_EQ((Shape{4, 0}).num_rows(), 0);
}

TEST(Shape, CreateRefusesNegativeExtentsAndOverflow) {
  EXPECT_THAT(Shape::Create({2, -1}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2, -1]")));
  const int64_t big = int64_t{1} << 32;
  EXPECT_THAT(Shape::Create({big, big}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^63")));
  EXPECT_THAT(Shape::Create({big, 0, big}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Shape::Create(std::vector<int64_t>(9, 1)), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Shape::Create({big, 2}), IsOkAndHolds(Shape{big, 2}));
}

}  // namespace
}  // namespace armature
