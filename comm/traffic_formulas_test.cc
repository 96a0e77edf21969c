// The bytes that processes move are those of the formulas in shm/shm_group.h and gloo/gloo_group.h.

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/status_matchers.h"
#include "armature/comm/connect_all.h"
#include "armature/comm/gloo/gloo_group.h"
#include "armature/comm/shm/shm_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {
namespace {

using Bytes = int64_t;

// A verb of a whole of S = P * part bytes, and what one rank sends and receives of it.
struct Formula {
  std::string verb;
  std::function<Work(Communicator&, BufferView part, BufferView whole, BufferView other)> call;
  std::function<Bytes(int world, int rank, Bytes part)> sent, received;
};

Bytes Others(int world, int, Bytes part) { return part * (world - 1); }
Bytes Root(int, int rank, Bytes bytes) { return rank == 0 ? bytes : 0; }
Bytes NotRoot(int, int rank, Bytes bytes) { return rank == 0 ? 0 : bytes; }

std::vector<Formula> CommonFormulas() {
  using C = Communicator;
  using B = BufferView;
  return {
      {"reduce-scatter",
       [](C& c, B part, B whole, B) { return c.ReduceScatter(whole, part, ReduceOp::kSum); }, Others, Others},
      {"all-to-all", [](C& c, B, B whole, B other) { return c.AllToAll(whole, other); }, Others, Others},
      {"scatter", [](C& c, B part, B whole, B) { return c.Scatter(whole, part, 0); },
       [](int world, int rank, Bytes part) { return Root(world, rank, part * (world - 1)); }, NotRoot},
      {"gather", [](C& c, B part, B whole, B) { return c.Gather(part, whole, 0); }, NotRoot,
       [](int world, int rank, Bytes part) { return Root(world, rank, part * (world - 1)); }},
  };
}

std::vector<Formula> ShmFormulas() {
  using C = Communicator;
  using B = BufferView;
  std::vector<Formula> formulas = CommonFormulas();
  formulas.push_back({"all-reduce", [](C& c, B, B whole, B) { return c.AllReduce(whole, ReduceOp::kSum); },
                      [](int world, int, Bytes part) { return part * world; },
                      [](int world, int, Bytes part) { return 2 * part * (world - 1); }});
  formulas.push_back(
      {"reduce", [](C& c, B, B whole, B other) { return c.Reduce(whole, other, ReduceOp::kSum, 0); },
       [](int world, int rank, Bytes part) { return part * (rank == 0 ? world - 1 : world); },
       [](int world, int rank, Bytes part) { return part * (world - 1) * (rank == 0 ? 2 : 1); }});
  formulas.push_back({"all-gather", [](C& c, B part, B whole, B) { return c.AllGather(part, whole); },
                      [](int, int, Bytes part) { return part; }, Others});
  formulas.push_back({"broadcast", [](C& c, B, B whole, B) { return c.Broadcast(whole, 0); },
                      [](int world, int rank, Bytes part) { return Root(world, rank, part * world); },
                      [](int world, int rank, Bytes part) { return NotRoot(world, rank, part * world); }});
  return formulas;
}

std::vector<Formula> GlooFormulas() {
  using C = Communicator;
  using B = BufferView;
  const auto twice = [](int world, int, Bytes part) { return 2 * part * (world - 1); };
  std::vector<Formula> formulas = CommonFormulas();
  formulas.push_back(
      {"all-reduce", [](C& c, B, B whole, B) { return c.AllReduce(whole, ReduceOp::kSum); }, twice, twice});
  formulas.push_back(
      {"reduce", [](C& c, B, B whole, B other) { return c.Reduce(whole, other, ReduceOp::kSum, 0); },
       [](int world, int rank, Bytes part) { return part * (world - 1 + (rank == 0 ? 0 : 1)); },
       [](int world, int rank, Bytes part) { return part * (world - 1) * (rank == 0 ? 2 : 1); }});
  formulas.push_back(
      {"all-gather", [](C& c, B part, B whole, B) { return c.AllGather(part, whole); }, Others, Others});
  // In parts: the root scatters them and sends its own to all; the others pass theirs on to all but the root.
  formulas.push_back(
      {"broadcast", [](C& c, B, B whole, B) { return c.Broadcast(whole, 0); },
       [](int world, int rank, Bytes part) { return part * (rank == 0 ? 2 * (world - 1) : world - 2); },
       [](int world, int rank, Bytes part) { return NotRoot(world, rank, part * world); }});
  return formulas;
}

void ExpectFormulas(const std::vector<Formula>& formulas, int world, Bytes part,
                    absl::FunctionRef<absl::StatusOr<RankList>()> make) {
  const int64_t count = part / 4;
  ASSERT_OK_AND_ASSIGN(RankList ranks, make());
  for (const Formula& formula : formulas) {
    EXPECT_THAT(
        OnRanks(
            ranks,
            [&](Communicator& comm) {
              std::vector<float> a(count), b(count * world), c(count * world);
              const auto view = [](std::vector<float>& data) {
                return BufferView{data.data(), static_cast<int64_t>(data.size()), DType::kF32, Device()};
              };
              const Traffic before = comm.traffic();
              absl::Status status = formula.call(comm, view(a), view(b), view(c)).Wait();
              const std::string where = absl::StrCat(formula.verb, " on rank ", comm.rank(), " of ", world);
              EXPECT_EQ(comm.traffic().bytes_sent - before.bytes_sent, formula.sent(world, comm.rank(), part))
                  << where;
              EXPECT_EQ(comm.traffic().bytes_received - before.bytes_received,
                        formula.received(world, comm.rank(), part))
                  << where;
              return status;
            }),
        ::testing::Each(IsOk()));
  }
}

// Parts of whole cache lines in every chunk, so that the cuts are even.
TEST(TrafficFormulas, SharedMemory) {
  for (int world : {2, 4}) {
    for (Bytes part : {Bytes{6400}, Bytes{256} << 10}) {
      ExpectFormulas(ShmFormulas(), world, part, [world] {
        return ConnectAll(world, [world](std::shared_ptr<Store> store, int rank) {
          return ConnectSharedMemory(std::move(store), rank, world);
        });
      });
    }
  }
}

TEST(TrafficFormulas, Gloo) {
  ExpectFormulas(GlooFormulas(), 3, Bytes{256} << 10, [] {
    return ConnectAll(3, [](std::shared_ptr<Store> store, int rank) {
      return ConnectGloo(std::move(store), rank, 3, "127.0.0.1");
    });
  });
}

}  // namespace
}  // namespace comm
}  // namespace armature
