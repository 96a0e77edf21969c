#include "armature/checkpoint/retention.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RetentionOptions Options(int64_t keep_last, int64_t keep_every) {
  RetentionOptions options;
  options.keep_last = keep_last;
  options.keep_every = keep_every;
  return options;
}

TEST(Retention, KeepsTheNewest) {
  EXPECT_THAT(StepsToRemove({10, 20, 30, 40}, 40, Options(2, 0)), ElementsAre(10, 20));
  EXPECT_THAT(StepsToRemove({10}, 10, Options(2, 0)), IsEmpty());
}

TEST(Retention, KeepsMultiplesHoweverOld) {
  EXPECT_THAT(StepsToRemove({0, 10, 20, 30, 40}, 40, Options(1, 20)), ElementsAre(10, 30));
}

TEST(Retention, KeepsAllIfAsked) { EXPECT_THAT(StepsToRemove({1, 2, 3, 4, 5}, 5, Options(0, 2)), IsEmpty()); }

TEST(Retention, KeepsTheOneJustWrittenThoughOthersAreNewer) {
  EXPECT_THAT(StepsToRemove({10, 20, 90, 100}, 20, Options(1, 0)), ElementsAre(10, 90));
}

}  // namespace
}  // namespace armature
