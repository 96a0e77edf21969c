#include "armature/data/batch.h"

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

Batch::Field MakeField(const std::string& name, const Shape& shape) {
  Array array = *Array::Create(shape, DType::kI32);
  int32_t next = 0;
  for (int32_t& value : array.values<int32_t>()) value = next++;
  return {name, std::move(array)};
}

Batch MakeBatch() {
  Batch batch;
  batch.fields.push_back(MakeField("tokens", Shape({3, 2})));
  batch.fields.push_back(MakeField("weight", Shape({3})));
  return batch;
}

TEST(Batch, FindsFieldsByName) {
  const Batch batch = MakeBatch();
  EXPECT_THAT(batch.Validate(), IsOk());
  EXPECT_EQ(batch.num_samples(), 3);
  EXPECT_EQ(batch.Find("weight"), &batch.fields[1].array);
  EXPECT_EQ(batch.Find("absent"), nullptr);
}

TEST(Batch, SlicesAllFieldsAndMovesTheFirstSample) {
  Batch batch = MakeBatch();
  batch.first_sample = 10;
  ASSERT_OK_AND_ASSIGN(const Batch slice, batch.Slice(1, 3));
  EXPECT_EQ(slice.first_sample, 11);
  EXPECT_EQ(slice.num_samples(), 2);
  EXPECT_THAT(slice.Find("tokens")->values<int32_t>(), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(slice.Find("weight")->values<int32_t>(), ElementsAre(1, 2));
  EXPECT_THAT(batch.Slice(2, 4), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("tokens")));
}

TEST(Batch, NoSamplesIsABatchToo) {
  ASSERT_OK_AND_ASSIGN(const Batch slice, MakeBatch().Slice(1, 1));
  EXPECT_EQ(slice.num_samples(), 0);
  EXPECT_THAT(slice.Validate(), IsOk());
}

TEST(Batch, ValidateNamesTheBadField) {
  EXPECT_THAT(Batch().Validate(), StatusIs(kInvalidArgument, HasSubstr("without fields")));

  Batch twice = MakeBatch();
  twice.fields.push_back(MakeField("tokens", Shape({3})));
  EXPECT_THAT(twice.Validate(), StatusIs(kInvalidArgument, HasSubstr("\"tokens\" is there twice")));

  Batch longer = MakeBatch();
  longer.fields.push_back(MakeField("labels", Shape({4})));
  EXPECT_THAT(longer.Validate(), StatusIs(kInvalidArgument, HasSubstr("\"labels\" of shape [4]")));

  Batch scalar = MakeBatch();
  scalar.fields.push_back(MakeField("scale", Shape()));
  EXPECT_THAT(scalar.Validate(), StatusIs(kInvalidArgument, HasSubstr("\"scale\" is a scalar")));

  Batch unnamed = MakeBatch();
  unnamed.fields.push_back(MakeField("", Shape({3})));
  EXPECT_THAT(unnamed.Validate(), StatusIs(kInvalidArgument, HasSubstr("no name")));

  Batch negative = MakeBatch();
  negative.first_sample = -1;
  EXPECT_THAT(negative.Validate(), StatusIs(kInvalidArgument, HasSubstr("first_sample -1")));
}

}  // namespace
}  // namespace armature
