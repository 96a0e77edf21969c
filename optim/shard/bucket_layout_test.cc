#include "armature/optim/shard/bucket_layout.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

using ::testing::ElementsAre;

TEST(BucketLayout, FillsBucketsFromTheLastParameterOn) {
  BucketLayoutOptions options;
  options.max_elements = 100;
  const BucketLayout layout({{60, 0}, {50, 0}, {40, 1}}, options);
  ASSERT_EQ(layout.buckets().size(), 2u);
  EXPECT_THAT(layout.buckets()[0].parameters, ElementsAre(2, 1));
  EXPECT_THAT(layout.buckets()[1].parameters, ElementsAre(0));
  EXPECT_EQ(layout.place(2).begin, 0);
  EXPECT_EQ(layout.place(1).begin, 48) << "aligned";
  EXPECT_EQ(layout.buckets()[0].elements, 112);
}

TEST(BucketLayout, AParameterLargerThanABucketHasItsOwn) {
  BucketLayoutOptions options;
  options.max_elements = 10;
  const BucketLayout layout({{5, 0}, {1000, 0}, {5, 0}}, options);
  EXPECT_EQ(layout.buckets().size(), 3u);
}

TEST(BucketLayout, SplitsAtBlocksWhereAsked) {
  BucketLayoutOptions options;
  options.split_at_blocks = true;
  const BucketLayout layout({{5, 0}, {5, 0}, {5, 1}}, options);
  ASSERT_EQ(layout.buckets().size(), 2u);
  EXPECT_EQ(layout.buckets()[0].block, 1);
  EXPECT_EQ(layout.buckets()[1].block, 0);
  EXPECT_THAT(layout.buckets()[1].parameters, ElementsAre(1, 0));
}

TEST(BucketLayout, PadsTheLastOfManyShards) {
  BucketLayoutOptions options;
  options.shards = 768;
  options.alignment = 2;
  const BucketLayout layout({{266240, 0}}, options);
  ASSERT_EQ(layout.buckets().size(), 1u);
  EXPECT_EQ(layout.buckets()[0].shard_elements, 348);
  const auto padding = [&](int shard) {
    const BucketLayout::Range range = layout.Shard(0, shard);
    return range.elements() - layout.PartOf(0, range).elements();
  };
  EXPECT_EQ(padding(764), 0);
  EXPECT_EQ(padding(765), 328);
  EXPECT_EQ(padding(766), 348);
  EXPECT_EQ(padding(767), 348);
}

TEST(BucketLayout, ShardsHoldEveryElementOnce) {
  for (const int shards : {1, 2, 3, 7}) {
    BucketLayoutOptions options;
    options.shards = shards;
    options.max_elements = 64;
    const BucketLayout layout({{33, 0}, {0, 0}, {1, 1}, {100, 2}, {17, 2}}, options);
    for (int parameter = 0; parameter < 5; ++parameter) {
      int64_t next = layout.place(parameter).begin;
      for (int shard = 0; shard < shards; ++shard) {
        const BucketLayout::Range part =
            layout.PartOf(parameter, layout.Shard(layout.place(parameter).bucket, shard));
        if (part.elements() == 0) continue;
        EXPECT_EQ(part.begin, next);
        next = part.end;
      }
      EXPECT_EQ(next, layout.place(parameter).end());
    }
  }
}

TEST(BucketLayout, NoParametersHaveNoBuckets) { EXPECT_TRUE(BucketLayout({}, {}).buckets().empty()); }

}  // namespace
}  // namespace armature
