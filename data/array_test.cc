#include "armature/data/array.h"

#include <vector>

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Array Iota(const Shape& shape) {
  std::vector<int32_t> values(shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i);
  return *Array::FromValues<int32_t>(shape, values);
}

TEST(Array, IsZeroAndAligned) {
  for (int64_t size : {1, 3, 64, 1000}) {
    ASSERT_OK_AND_ASSIGN(Array array, Array::Create(Shape({size}), DType::kF64));
    EXPECT_THAT(array.values<double>(), Each(0.0));
    EXPECT_EQ(array.values<double>().size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(array.view().data) % 64, 0);
    EXPECT_EQ(array.size_bytes(), 8 * size);
  }
}

TEST(Array, ValuesOfAnotherTypeAreEmpty) {
  const Array array = Iota(Shape({2}));
  EXPECT_THAT(array.values<int32_t>(), ElementsAre(0, 1));
  EXPECT_THAT(array.values<float>(), IsEmpty());
  EXPECT_THAT(Array().values<float>(), IsEmpty());
}

TEST(Array, FromValuesWantsAsManyAsTheShape) {
  EXPECT_THAT(Array::FromValues<float>(Shape({2, 2}), {1, 2, 3}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 values for shape [2, 2]")));
  ASSERT_OK_AND_ASSIGN(const Array scalar, Array::FromValues<uint8_t>(Shape(), {7}));
  EXPECT_EQ(scalar.dtype(), DType::kU8);
  EXPECT_THAT(scalar.values<uint8_t>(), ElementsAre(7));
}

TEST(Array, SlicesRows) {
  const Array array = Iota(Shape({3, 2}));
  ASSERT_OK_AND_ASSIGN(const Array rows, array.Slice(1, 3));
  EXPECT_EQ(rows.shape(), Shape({2, 2}));
  EXPECT_THAT(rows.values<int32_t>(), ElementsAre(2, 3, 4, 5));
  ASSERT_OK_AND_ASSIGN(const Array none, array.Slice(3, 3));
  EXPECT_EQ(none.shape(), Shape({0, 2}));
  EXPECT_THAT(none.values<int32_t>(), IsEmpty());
}

TEST(Array, RowsOutsideAreOutOfRange) {
  const Array array = Iota(Shape({3, 2}));
  EXPECT_THAT(array.Slice(-1, 2), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(array.Slice(2, 1), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(array.Slice(0, 4), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("[3, 2]")));
  EXPECT_THAT(Iota(Shape()).Slice(0, 1), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(Array, AClonesBytesAreItsOwn) {
  Array array = Iota(Shape({2}));
  ASSERT_OK_AND_ASSIGN(const Array clone, array.Clone());
  array.values<int32_t>()[0] = 9;
  EXPECT_THAT(clone.values<int32_t>(), ElementsAre(0, 1));
}

TEST(Array, MoreThanTheMachineHasIsResourceExhausted) {
  const Shape huge({int64_t{1} << 31, int64_t{1} << 31});
  EXPECT_THAT(Array::Create(huge, DType::kF64), StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace armature
