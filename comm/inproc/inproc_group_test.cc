#include "armature/comm/inproc/inproc_group.h"

#include <dirent.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/base/status_matchers.h"
#include "armature/comm/on_ranks.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {
namespace {

int CountEntries(const char* directory) {
  int count = 0;
  DIR* dir = opendir(directory);
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

BufferView View(std::vector<float>& data) {
  return {data.data(), static_cast<int64_t>(data.size()), DType::kF32, Device()};
}

// What a rank moves in a collective of a group of `world`, by the table in the header.
struct Formula {
  std::string verb;
  std::function<Work(Communicator&, BufferView part, BufferView whole, BufferView other)> call;
  std::function<Traffic(int world, int rank, int64_t part_bytes)> expected;
};

std::vector<Formula> Formulas() {
  using C = Communicator;
  using B = BufferView;
  const auto all = [](int world, int, int64_t part) { return Traffic{0, part * (world - 1), 2}; };
  return {
      {"all-reduce", [](C& c, B, B whole, B) { return c.AllReduce(whole, ReduceOp::kSum); },
       [](int world, int, int64_t part) {
         return Traffic{part * (world - 1), part * (world - 1), 2};
       }},
      {"reduce", [](C& c, B, B whole, B other) { return c.Reduce(whole, other, ReduceOp::kSum, 0); },
       [](int world, int rank, int64_t part) {
         return Traffic{rank == 0 ? 0 : part, part * (world - 1), 2};
       }},
      {"reduce-scatter",
       [](C& c, B part, B whole, B) { return c.ReduceScatter(whole, part, ReduceOp::kSum); }, all},
      {"all-gather", [](C& c, B part, B whole, B) { return c.AllGather(part, whole); }, all},
      {"all-to-all", [](C& c, B, B whole, B other) { return c.AllToAll(whole, other); }, all},
      {"broadcast", [](C& c, B, B whole, B) { return c.Broadcast(whole, 0); },
       [](int world, int rank, int64_t part) {
         return Traffic{0, rank == 0 ? 0 : part * world, 2};
       }},
      {"gather", [](C& c, B part, B whole, B) { return c.Gather(part, whole, 0); },
       [](int world, int rank, int64_t part) {
         return Traffic{0, rank == 0 ? part * (world - 1) : 0, 2};
       }},
      {"scatter", [](C& c, B part, B whole, B) { return c.Scatter(whole, part, 0); },
       [](int, int rank, int64_t part) {
         return Traffic{0, rank == 0 ? 0 : part, 2};
       }},
  };
}

TEST(InprocGroup, MovesTheBytesOfItsFormulas) {
  constexpr int64_t kPart = 1600;  // elements; a whole number of cache lines
  for (int world : {1, 2, 3, 8}) {
    for (const Formula& formula : Formulas()) {
      ASSERT_OK_AND_ASSIGN(RankList ranks, MakeInprocGroup(world));
      OnRanks(ranks, [&](Communicator& comm) {
        std::vector<float> part(kPart), whole(kPart * world), other(kPart * world);
        absl::Status status = formula.call(comm, View(part), View(whole), View(other)).Wait();
        EXPECT_THAT(status, IsOk());
        const Traffic traffic = comm.traffic(), expected = formula.expected(world, comm.rank(), kPart * 4);
        const std::string where = absl::StrCat(formula.verb, " on rank ", comm.rank(), " of ", world);
        EXPECT_EQ(traffic.bytes_sent, expected.bytes_sent) << where;
        EXPECT_EQ(traffic.bytes_received, expected.bytes_received) << where;
        EXPECT_EQ(traffic.steps, expected.steps) << where;
        return status;
      });
    }
  }
}

TEST(InprocGroup, RefusesToHaveNoRank) {
  EXPECT_THAT(MakeInprocGroup(0), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(InprocGroup, AThousandRoundsLeaveNoThreadAndNoFileBehind) {
  const int threads = CountEntries("/proc/self/task"), files = CountEntries("/proc/self/fd");
  for (int round = 0; round < 1000; ++round) {
    ASSERT_OK_AND_ASSIGN(RankList ranks, MakeInprocGroup(2));
    std::vector<float> a(8, 1), b(8, 2);
    Work first = ranks[0]->AllReduce(View(a), ReduceOp::kSum);
    first.Start();  // makes rank 0's thread
    ASSERT_THAT(ranks[1]->AllReduce(View(b), ReduceOp::kSum).Wait(), IsOk());
    ASSERT_THAT(first.Wait(), IsOk());
  }
  EXPECT_EQ(CountEntries("/proc/self/task"), threads);
  EXPECT_EQ(CountEntries("/proc/self/fd"), files);
}

TEST(InprocGroup, DestructionEndsWorkThatNobodyWillFinish) {
  ASSERT_OK_AND_ASSIGN(RankList ranks, MakeInprocGroup(2));
  std::vector<float> a(8, 1), b(8, 2);
  Work started = ranks[0]->AllReduce(View(a), ReduceOp::kSum), sent = ranks[0]->Send(View(b), 1);
  started.Start();
  absl::SleepFor(absl::Milliseconds(5));
  ranks[0] = nullptr;
  EXPECT_THAT(started.Wait(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(sent.Wait(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_FALSE(ranks[1]->Barrier(absl::InfiniteFuture()).ok());
}

// Four engines of 4 ranks, each rank with the groups of two axes, all at work at once.
TEST(InprocGroup, ManyGroupsLiveSideBySide) {
  std::vector<std::thread> engines;
  for (int engine = 0; engine < 4; ++engine) {
    engines.emplace_back([] {
      ASSERT_OK_AND_ASSIGN(RankList world, MakeInprocGroup(4));
      for (const absl::Status& status : OnRanks(world, [](Communicator& comm) {
             ARMATURE_ASSIGN_OR_RETURN(auto tensor, comm.Split(comm.rank() / 2, 0));
             ARMATURE_ASSIGN_OR_RETURN(auto data, comm.Split(comm.rank() % 2, 0));
             std::vector<float> gradients(1000, 1), activations(1000, 1);
             for (int step = 0; step < 50; ++step) {
               Work reduction = data->AllReduce(View(gradients), ReduceOp::kAvg);
               reduction.Start();
               ARMATURE_RETURN_IF_ERROR(tensor->AllReduce(View(activations), ReduceOp::kMax).Wait());
               ARMATURE_RETURN_IF_ERROR(reduction.Wait());
             }
             return gradients[999] == 1 ? absl::OkStatus() : absl::InternalError("wrong average");
           })) {
        EXPECT_THAT(status, IsOk());
      }
    });
  }
  for (std::thread& engine : engines) engine.join();
}

}  // namespace
}  // namespace comm
}  // namespace armature
