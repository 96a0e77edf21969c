// What every backend promises beyond the grid of values: unequal parts, messages, order, asynchrony,
// sub-groups.

#include <cmath>
#include <numeric>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/conformance.h"
#include "gmock/gmock.h"

namespace armature {
namespace comm {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

BufferView View(std::vector<float>& data) {
  return {data.data(), static_cast<int64_t>(data.size()), DType::kF32, Device()};
}

PointToPoint SendTo(int peer, BufferView data) { return {PointToPoint::Kind::kSend, peer, data}; }
PointToPoint ReceiveFrom(int peer, BufferView data) { return {PointToPoint::Kind::kReceive, peer, data}; }

void ExpectAllOk(const std::vector<absl::Status>& results) {
  for (const absl::Status& result : results) EXPECT_THAT(result, IsOk());
}

absl::Status Expect(bool right, absl::string_view what) {
  return right ? absl::OkStatus() : absl::InternalError(what);
}

TEST_P(CommunicatorConformance, AfterACountOfZeroTheNextResultIsRight) {
  for (int world : {1, 2, 4, 7}) {
    RankList ranks = Make(world);
    ExpectAllOk(OnRanks(ranks, [&](Communicator& comm) {
      std::vector<float> none, data(5, 1), all(5 * world);
      for (std::vector<float>* buffer : {&none, &data}) {
        std::vector<float> out(buffer->size()), whole(buffer->size() * world);
        ARMATURE_RETURN_IF_ERROR(comm.AllReduce(View(*buffer), ReduceOp::kSum).Wait());
        ARMATURE_RETURN_IF_ERROR(comm.Reduce(View(*buffer), View(out), ReduceOp::kSum, world - 1).Wait());
        ARMATURE_RETURN_IF_ERROR(comm.AllGather(View(*buffer), View(whole)).Wait());
        ARMATURE_RETURN_IF_ERROR(comm.ReduceScatter(View(whole), View(out), ReduceOp::kSum).Wait());
        std::vector<float> exchanged(whole.size());
        ARMATURE_RETURN_IF_ERROR(comm.AllToAll(View(whole), View(exchanged)).Wait());
        ARMATURE_RETURN_IF_ERROR(comm.Broadcast(View(exchanged), 0).Wait());
        ARMATURE_RETURN_IF_ERROR(comm.Scatter(View(whole), View(out), 0).Wait());
        ARMATURE_RETURN_IF_ERROR(comm.Gather(View(out), View(whole), 0).Wait());
        ARMATURE_RETURN_IF_ERROR(comm.Barrier(absl::InfiniteFuture()));
        for (float value : whole) ARMATURE_RETURN_IF_ERROR(Expect(value == world, "wrong gathered sum"));
      }
      return Expect(data == std::vector<float>(5, world), "wrong sum");
    }));
  }
}

TEST_P(CommunicatorConformance, UnequalRowsAreGatheredInOrder) {
  RankList ranks = Make(4);
  ExpectAllOk(OnRanks(ranks, [](Communicator& comm) {
    const std::vector<int64_t> counts = {6, 3, 3, 3};  // rows 2,1,1,1 of 3 columns
    std::vector<float> in(counts[comm.rank()]), out(15), expected(15);
    std::iota(in.begin(), in.end(), comm.rank() == 0 ? 0.0f : 3.0f + 3.0f * comm.rank());
    std::iota(expected.begin(), expected.end(), 0.0f);
    ARMATURE_RETURN_IF_ERROR(comm.AllGatherV(View(in), View(out), counts).Wait());
    return Expect(out == expected, "wrong order");
  }));
}

TEST_P(CommunicatorConformance, ReductionsScatterUnequalParts) {
  RankList ranks = Make(3);
  ExpectAllOk(OnRanks(ranks, [](Communicator& comm) {
    const std::vector<int64_t> counts = {5, 0, 2000};
    std::vector<float> in(2005), out(counts[comm.rank()]);
    std::iota(in.begin(), in.end(), 0.0f);
    ARMATURE_RETURN_IF_ERROR(comm.ReduceScatterV(View(in), View(out), counts, ReduceOp::kSum).Wait());
    const float begin = comm.rank() == 2 ? 5 : 0;
    for (size_t i = 0; i < out.size(); ++i) {
      ARMATURE_RETURN_IF_ERROR(Expect(out[i] == 3 * (begin + i), "wrong part"));
    }
    return absl::OkStatus();
  }));
}

// Rank s sends (s + 1) * (r + 1) elements of value 10 s + r to rank r.
TEST_P(CommunicatorConformance, UnequalPartsGoFromAllToAll) {
  RankList ranks = Make(4);
  ExpectAllOk(OnRanks(ranks, [](Communicator& comm) {
    const int me = comm.rank();
    std::vector<int64_t> sends, receives;
    std::vector<float> in, expected;
    for (int peer = 0; peer < 4; ++peer) {
      sends.push_back((me + 1) * (peer + 1) * 100 - 100);
      receives.push_back(sends.back());
      in.insert(in.end(), sends.back(), 10.0f * me + peer);
      expected.insert(expected.end(), receives.back(), 10.0f * peer + me);
    }
    std::vector<float> out(expected.size());
    ARMATURE_RETURN_IF_ERROR(comm.AllToAllV(View(in), sends, View(out), receives).Wait());
    return Expect(out == expected, "wrong exchange");
  }));
}

TEST_P(CommunicatorConformance, SumsAreTakenInABalancedTreeOfTheRanksToTheBit) {
  RankList ranks = Make(4);
  constexpr int kCount = 10007;
  const auto value = [](int rank, int i) {
    return std::ldexp(1.0f + 0.37f * rank + 1e-3f * i, (i * 7 + rank * 5) % 23);
  };
  std::vector<float> expected(kCount);
  for (int i = 0; i < kCount; ++i) expected[i] = (value(0, i) + value(1, i)) + (value(2, i) + value(3, i));
  ExpectAllOk(OnRanks(ranks, [&](Communicator& comm) {
    std::vector<float> data(kCount);
    for (int i = 0; i < kCount; ++i) data[i] = value(comm.rank(), i);
    ARMATURE_RETURN_IF_ERROR(comm.AllReduce(View(data), ReduceOp::kSum).Wait());
    return Expect(data == expected, "another order");
  }));
}

TEST_P(CommunicatorConformance, ARingOfMessagesCompletes) {
  for (int world : {1, 2, 3, 8}) {
    RankList ranks = Make(world);
    ExpectAllOk(OnRanks(ranks, [&](Communicator& comm) {
      const int next = (comm.rank() + 1) % world, previous = (comm.rank() + world - 1) % world;
      std::vector<float> mine(1001, comm.rank()), theirs(1001, -1), second(3, comm.rank()),
          their_second(3, -1);
      const PointToPoint both[] = {SendTo(next, View(mine)), SendTo(next, View(second)),
                                   ReceiveFrom(previous, View(theirs)),
                                   ReceiveFrom(previous, View(their_second))};
      ARMATURE_RETURN_IF_ERROR(comm.Group(both).Wait());
      return Expect(
          theirs == std::vector<float>(1001, previous) && their_second == std::vector<float>(3, previous),
          "wrong message");
    }));
  }
}

TEST_P(CommunicatorConformance, ManySmallMessagesKeepTheirOrder) {
  RankList ranks = Make(3);
  ExpectAllOk(OnRanks(ranks, [](Communicator& comm) {
    const int next = (comm.rank() + 1) % 3, previous = (comm.rank() + 2) % 3;
    for (int round = 0; round < 100; ++round) {
      std::vector<std::vector<float>> out, in;
      for (int i = 0; i < 4; ++i) {
        out.emplace_back(1 + i * 37, 10.0f * round + i);
        in.emplace_back(out.back().size());
      }
      std::vector<PointToPoint> transfers;
      for (int i = 0; i < 4; ++i) {
        transfers.push_back(SendTo(next, View(out[i])));
        transfers.push_back(ReceiveFrom(previous, View(in[i])));
      }
      ARMATURE_RETURN_IF_ERROR(comm.Group(transfers).Wait());
      ARMATURE_RETURN_IF_ERROR(Expect(in == out, "wrong order"));
    }
    return absl::OkStatus();
  }));
}

TEST_P(CommunicatorConformance, TwoLargeSendsBeforeTheReceivesComplete) {
  RankList ranks = Make(2);
  ExpectAllOk(OnRanks(ranks, [](Communicator& comm) {
    std::vector<float> out(16 << 20, comm.rank() + 1.0f), in(16 << 20);
    const PointToPoint both[] = {SendTo(1 - comm.rank(), View(out)), ReceiveFrom(1 - comm.rank(), View(in))};
    ARMATURE_RETURN_IF_ERROR(comm.Group(both).Wait());
    return Expect(in.front() == 2.0f - comm.rank() && in.back() == 2.0f - comm.rank(), "wrong message");
  }));
}

TEST_P(CommunicatorConformance, UngroupedLargeSendsNeverHang) {
  RankList ranks = Make(2);
  const auto results = OnRanks(ranks, [](Communicator& comm) {
    std::vector<float> out(16 << 20, 1.0f), in(16 << 20);
    const absl::Time deadline = absl::Now() + absl::Milliseconds(300);
    ARMATURE_RETURN_IF_ERROR(comm.Send(View(out), 1 - comm.rank()).Wait(deadline));
    return comm.Receive(View(in), 1 - comm.rank()).Wait(deadline + absl::Seconds(20));
  });
  for (const absl::Status& result : results) {
    EXPECT_THAT(result, AnyOf(IsOk(), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank "))));
  }
}

TEST_P(CommunicatorConformance, MessagesOfUnequalCountsFailOnBothSides) {
  RankList ranks = Make(2);
  const auto results = OnRanks(ranks, [](Communicator& comm) {
    std::vector<float> data(comm.rank() == 0 ? 100 : 200);
    return comm.rank() == 0 ? comm.Send(View(data), 1).Wait() : comm.Receive(View(data), 0).Wait();
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("rank 0 sends 100 f32, rank 1 receives 200 f32"))));
}

TEST_P(CommunicatorConformance, StartedWorkEndsWithoutAWaiter) {
  RankList ranks = Make(3);
  ExpectAllOk(OnRanks(ranks, [](Communicator& comm) {
    std::vector<std::vector<float>> buckets(8, std::vector<float>(5000, 1));
    std::vector<Work> works;
    for (auto& bucket : buckets) works.push_back(comm.AllReduce(View(bucket), ReduceOp::kSum));
    works.back().Start();
    const absl::Time limit = absl::Now() + absl::Seconds(30);
    while (!works.back().done() && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
    for (Work& work : works) ARMATURE_RETURN_IF_ERROR(Expect(work.done(), "not done"));
    for (Work& work : works) ARMATURE_RETURN_IF_ERROR(work.Wait());
    for (auto& bucket : buckets) ARMATURE_RETURN_IF_ERROR(Expect(bucket[4999] == 3, "wrong sum"));
    return absl::OkStatus();
  }));
}

TEST_P(CommunicatorConformance, WorkIsWaitedForInAnyOrderOrNotAtAll) {
  RankList ranks = Make(2);
  ExpectAllOk(OnRanks(ranks, [](Communicator& comm) {
    std::vector<float> first(3, 1), second(100, 1), third(2000, 1);
    Work one = comm.AllReduce(View(first), ReduceOp::kSum);
    { Work dropped = comm.AllReduce(View(second), ReduceOp::kSum); }
    Work three = comm.AllReduce(View(third), ReduceOp::kSum);
    ARMATURE_RETURN_IF_ERROR(three.Wait());
    ARMATURE_RETURN_IF_ERROR(one.Wait());
    ARMATURE_RETURN_IF_ERROR(one.Wait());
    return Expect(first[2] == 2 && second[99] == 2 && third[1999] == 2, "wrong sum");
  }));
}

TEST_P(CommunicatorConformance, SplitOrdersByKeyAndLeavesOutNegativeColors) {
  RankList ranks = Make(5);
  ExpectAllOk(OnRanks(ranks, [](Communicator& comm) {
    const int color = comm.rank() == 4 ? -1 : comm.rank() % 2;
    ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> half, comm.Split(color, -comm.rank()));
    if (comm.rank() == 4) return Expect(half == nullptr, "joined a group");
    ARMATURE_RETURN_IF_ERROR(
        Expect(half->size() == 2 && half->rank() == (comm.rank() < 2 ? 1 : 0), "wrong place"));
    std::vector<float> data = {static_cast<float>(comm.rank())};
    ARMATURE_RETURN_IF_ERROR(half->AllReduce(View(data), ReduceOp::kSum).Wait());
    return Expect(data[0] == (color == 0 ? 2 : 4), "wrong members");
  }));
}

TEST_P(CommunicatorConformance, ShrinkGoesOnWithoutTheLost) {
  RankList ranks = Make(4);
  const auto results = OnRanks(ranks, [&](Communicator& comm) {
    if (comm.rank() == 2) {
      ranks[2] = nullptr;
      return absl::OkStatus();
    }
    std::vector<float> data(10, comm.rank());
    absl::Status lost = comm.AllReduce(View(data), ReduceOp::kSum).Wait();
    ARMATURE_RETURN_IF_ERROR(Expect(lost.code() == absl::StatusCode::kUnavailable, lost.ToString()));
    ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> rest, comm.Shrink({2}));
    data.assign(10, comm.rank());
    ARMATURE_RETURN_IF_ERROR(rest->AllReduce(View(data), ReduceOp::kSum).Wait());
    return Expect(rest->size() == 3 && data[9] == 4, "wrong sum");
  });
  ExpectAllOk(results);
}

TEST_P(CommunicatorConformance, TwoGroupsServeTwoThreadsAtOnce) {
  RankList first = Make(2), second = Make(2);
  const auto rounds = [](Communicator& comm) {
    for (int round = 0; round < 200; ++round) {
      std::vector<float> data(1 + round * 7, 1);
      ARMATURE_RETURN_IF_ERROR(comm.AllReduce(View(data), ReduceOp::kSum).Wait());
      ARMATURE_RETURN_IF_ERROR(Expect(data.back() == 2, "wrong sum"));
    }
    return absl::OkStatus();
  };
  std::vector<absl::Status> other;
  std::thread beside([&] { other = OnRanks(second, rounds); });
  ExpectAllOk(OnRanks(first, rounds));
  beside.join();
  ExpectAllOk(other);
}

}  // namespace
}  // namespace comm
}  // namespace armature
