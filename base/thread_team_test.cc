#include "armature/base/thread_team.h"

#include <pthread.h>

#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

TEST(ThreadTeam, EveryElementIsVisitedOnceForOddSizes) {
  for (int size : {1, 2, 3, 5}) {
    ThreadTeam team(size);
    for (int64_t count : {0, 1, 2, 3, 7, 64, 1001}) {
      for (int64_t grain : {0, 1, 3, 100, 5000}) {
        std::vector<int> visits(count, 0);
        team.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
          EXPECT_LT(begin, end);
          for (int64_t i = begin; i < end; ++i) ++visits[i];
        });
        EXPECT_THAT(visits, ::testing::Each(1)) << size << " " << count << " " << grain;
      }
    }
  }
}

TEST(ThreadTeam, RangesAreAtLeastTheGrain) {
  ThreadTeam team(4);
  std::atomic<int> ranges{0};
  team.ParallelFor(100, 40, [&](int64_t begin, int64_t end) {
    EXPECT_GE(end - begin, 40);
    ++ranges;
  });
  EXPECT_EQ(ranges, 2);
}

TEST(ThreadTeam, OnEachRunsEveryIndexOnItsOwnThread) {
  ThreadTeam team(3);
  std::vector<std::thread::id> ids(3);
  team.OnEach([&](int index) { ids[index] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[2], ids[1]);
}

TEST(ThreadTeam, ManyLoopsWithPausesBetweenThem) {
  ThreadTeam team(2);
  int64_t sum = 0;
  for (int round = 0; round < 2000; ++round) {
    int64_t parts[2] = {0, 0};
    team.OnEach([&](int index) { parts[index] = round; });
    sum += parts[0] + parts[1];
    if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(sum, 2 * (1999 * 2000 / 2));
}

TEST(ThreadTeam, IsSmallerWhereTheSystemRefusesThreads) {
  // Threads whose stacks fit no address space.
  pthread_attr_t normal, huge;
  ASSERT_EQ(pthread_getattr_default_np(&normal), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 48), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  ThreadTeam team(4);
  ASSERT_EQ(pthread_setattr_default_np(&normal), 0);
  pthread_attr_destroy(&normal);
  pthread_attr_destroy(&huge);
  EXPECT_EQ(team.size(), 1);
  int64_t sum = 0;
  team.ParallelFor(10, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 10);
}

}  // namespace
}  // namespace armature
