// Making and destroying groups of processes leaves no thread, descriptor, name or memory behind.

#include <dirent.h>

#include <fstream>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/comm/connect_all.h"
#include "armature/comm/gloo/gloo_group.h"
#include "armature/comm/shm/shm_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {
namespace {

using ::testing::Each;

int CountEntries(const char* directory, const std::string& prefix) {
  int count = 0;
  DIR* dir = opendir(directory);
  if (dir == nullptr) return 0;
  while (const dirent* entry = readdir(dir))
    count += std::string(entry->d_name).compare(0, prefix.size(), prefix) == 0;
  closedir(dir);
  return count;
}

int64_t ResidentBytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4096;
}

void ExpectNoLeak(int rounds, absl::FunctionRef<absl::StatusOr<RankList>()> make) {
  const auto round = [&] {
    ASSERT_OK_AND_ASSIGN(RankList ranks, make());
    EXPECT_THAT(
        OnRanks(ranks,
                [](Communicator& comm) {
                  std::vector<float> data(100, 1);
                  return comm.AllReduce({data.data(), 100, DType::kF32, Device()}, ReduceOp::kSum).Wait();
                }),
        Each(IsOk()));
  };
  for (int i = 0; i < 20; ++i) round();  // warms up allocators
  const int threads = CountEntries("/proc/self/task", ""), files = CountEntries("/proc/self/fd", "");
  const int64_t memory = ResidentBytes();
  for (int i = 0; i < rounds; ++i) round();
  EXPECT_EQ(CountEntries("/proc/self/task", ""), threads);
  EXPECT_EQ(CountEntries("/proc/self/fd", ""), files);
  EXPECT_EQ(CountEntries("/dev/shm", "armature."), 0);
  EXPECT_LT(ResidentBytes() - memory, 8 << 20);
}

TEST(ProcessLeaks, AThousandGroupsInSharedMemory) {
  ExpectNoLeak(1000, [] {
    return ConnectAll(2, [](std::shared_ptr<Store> store, int rank) {
      return ConnectSharedMemory(std::move(store), rank, 2);
    });
  });
}

absl::StatusOr<RankList> MakeOverTcp() {
  return ConnectAll(2, [](std::shared_ptr<Store> store, int rank) {
    return ConnectGloo(std::move(store), rank, 2, "127.0.0.1");
  });
}

TEST(ProcessLeaks, AHundredGroupsOverTcp) { ExpectNoLeak(100, MakeOverTcp); }

// A minute and a half: process_leaks_long_test runs it.
TEST(ProcessLeaks, DISABLED_AThousandGroupsOverTcp) { ExpectNoLeak(1000, MakeOverTcp); }

}  // namespace
}  // namespace comm
}  // namespace armature
