// What happens on every other rank when one rank fails, differs, leaves or is silent.

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/comm/conformance.h"
#include "gmock/gmock.h"

namespace armature {
namespace comm {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

struct NamedCall {
  absl::string_view name;
  std::function<absl::Status(Communicator& comm, absl::Time deadline)> call;
};

// Buffers that fit every verb of a group of 3.
struct Buffers {
  std::vector<float> part_data = std::vector<float>(1000, 1), whole_data = std::vector<float>(3000, 1);
  BufferView part() { return {part_data.data(), 1000, DType::kF32, Device()}; }
  BufferView whole() { return {whole_data.data(), 3000, DType::kF32, Device()}; }
};

std::vector<NamedCall> EveryVerb() {
  const auto verb = [](absl::string_view name, auto call) {
    return NamedCall{name, [call](Communicator& comm, absl::Time deadline) {
                       Buffers buffers, more;
                       return call(comm, buffers, more).Wait(deadline);
                     }};
  };
  using C = Communicator;
  using B = Buffers;
  return {
      verb("AllReduce", [](C& c, B& b, B&) { return c.AllReduce(b.part(), ReduceOp::kSum); }),
      verb("Reduce", [](C& c, B& b, B& m) { return c.Reduce(b.part(), m.part(), ReduceOp::kSum, 0); }),
      verb("ReduceScatter",
           [](C& c, B& b, B&) { return c.ReduceScatter(b.whole(), b.part(), ReduceOp::kSum); }),
      verb("AllGather", [](C& c, B& b, B&) { return c.AllGather(b.part(), b.whole()); }),
      verb("AllToAll", [](C& c, B& b, B& m) { return c.AllToAll(b.whole(), m.whole()); }),
      verb("Broadcast", [](C& c, B& b, B&) { return c.Broadcast(b.part(), 1); }),
      verb("Gather", [](C& c, B& b, B&) { return c.Gather(b.part(), b.whole(), 0); }),
      verb("Scatter", [](C& c, B& b, B&) { return c.Scatter(b.whole(), b.part(), 0); }),
      verb("Receive", [](C& c, B& b, B&) { return c.Receive(b.part(), 1); }),
      {"Barrier", [](C& c, absl::Time deadline) { return c.Barrier(deadline); }},
  };
}

TEST_P(CommunicatorConformance, ARankThatAbortsBeforeAVerbWakesAllOthersWithinASecond) {
  for (const NamedCall& verb : EveryVerb()) {
    SCOPED_TRACE(verb.name);
    RankList ranks = Make(3);
    const auto results = OnRanks(ranks, [&](Communicator& comm) {
      if (comm.rank() == 1) {
        absl::SleepFor(absl::Milliseconds(10));  // the others wait already
        comm.Abort(absl::DataLossError("the disk is on fire"));
        return comm.Barrier(absl::InfiniteFuture());
      }
      const absl::Time start = absl::Now();
      absl::Status status = verb.call(comm, absl::InfiniteFuture());
      EXPECT_LT(absl::Now() - start, absl::Seconds(1));
      return status;
    });
    EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kCancelled,
                                       AllOf(HasSubstr("rank 1"), HasSubstr("the disk is on fire")))));
  }
}

TEST_P(CommunicatorConformance, ARankThatIsDestroyedBeforeAVerbIsNamedWithinASecond) {
  for (const NamedCall& verb : EveryVerb()) {
    SCOPED_TRACE(verb.name);
    RankList ranks = Make(3);
    const auto results = OnRanks(ranks, [&](Communicator& comm) {
      if (comm.rank() == 1) {
        absl::SleepFor(absl::Milliseconds(10));
        ranks[1] = nullptr;
        return absl::UnavailableError("rank 1");
      }
      const absl::Time start = absl::Now();
      absl::Status status = verb.call(comm, absl::InfiniteFuture());
      EXPECT_LT(absl::Now() - start, absl::Seconds(1));
      return status;
    });
    EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1"))));
  }
}

TEST_P(CommunicatorConformance, ASilentRankIsNamedWhenTheDeadlinePasses) {
  for (const NamedCall& verb : EveryVerb()) {
    SCOPED_TRACE(verb.name);
    RankList ranks = Make(3);
    const auto results = OnRanks(ranks, [&](Communicator& comm) {
      if (comm.rank() == 1) {
        absl::SleepFor(absl::Milliseconds(400));
        return absl::DeadlineExceededError("rank 1");
      }
      return verb.call(comm, absl::Now() + absl::Milliseconds(100));
    });
    EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1"))));
  }
}

TEST_P(CommunicatorConformance, WorkInTheBackgroundKeepsTheWaitersDeadline) {
  RankList ranks = Make(2);
  const auto results = OnRanks(ranks, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      absl::SleepFor(absl::Milliseconds(300));
      return absl::DeadlineExceededError("silent");
    }
    Buffers buffers;
    Work work = comm.AllReduce(buffers.part(), ReduceOp::kSum);
    work.Start();
    absl::SleepFor(absl::Milliseconds(20));
    return work.Wait(absl::Now() + absl::Milliseconds(50));
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kDeadlineExceeded)));
}

TEST_P(CommunicatorConformance, TheGroupsTimeoutBoundsEveryOperation) {
  RankList ranks = Make(2, absl::Milliseconds(200));
  const auto results = OnRanks(ranks, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      absl::SleepFor(absl::Milliseconds(500));
      return absl::DeadlineExceededError("rank 1");
    }
    return comm.Barrier(absl::InfiniteFuture());
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1"))));
}

// Every rank calls `mine` but rank 2, which calls `other`; then all agree on a sum again.
void ExpectDisagreement(RankList ranks, absl::FunctionRef<Work(Communicator&, Buffers&)> mine,
                        absl::FunctionRef<Work(Communicator&, Buffers&)> other, absl::string_view one,
                        absl::string_view another) {
  const auto results = OnRanks(ranks, [&](Communicator& comm) {
    Buffers buffers;
    absl::Status status = comm.rank() == 2 ? other(comm, buffers).Wait() : mine(comm, buffers).Wait();
    Buffers after;
    EXPECT_THAT(comm.AllReduce(after.part(), ReduceOp::kSum).Wait(), IsOk());
    EXPECT_EQ(after.part_data[999], 3);
    return status;
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kInvalidArgument,
                                     AllOf(HasSubstr("rank 2"), HasSubstr(std::string(one)),
                                           HasSubstr(std::string(another))))));
}

TEST_P(CommunicatorConformance, RanksThatDisagreeAllGetBothSidesAndGoOn) {
  using C = Communicator;
  using B = Buffers;
  const auto sum = [](C& c, B& b) { return c.AllReduce(b.part(), ReduceOp::kSum); };
  ExpectDisagreement(
      Make(3), sum,
      [](C& c, B& b) {
        BufferView shorter = b.part();
        shorter.count = 200;
        return c.AllReduce(shorter, ReduceOp::kSum);
      },
      "of 1000 f32", "of 200 f32");
  ExpectDisagreement(
      Make(3), sum, [](C& c, B& b) { return c.AllReduce(b.part(), ReduceOp::kMax); }, "(sum)", "(max)");
  ExpectDisagreement(
      Make(3), sum, [](C& c, B& b) { return c.Broadcast(b.part(), 0); }, "all-reduce", "broadcast");
  ExpectDisagreement(
      Make(3), sum,
      [](C& c, B& b) {
        BufferView ints = b.part();
        ints.dtype = DType::kI32;
        return c.AllReduce(ints, ReduceOp::kSum);
      },
      "f32", "i32");
  ExpectDisagreement(
      Make(3), [](C& c, B& b) { return c.Broadcast(b.part(), 0); },
      [](C& c, B& b) { return c.Broadcast(b.part(), 1); }, "root 0", "root 1");
}

TEST_P(CommunicatorConformance, UnequalListsOfPartsFailOnEveryRank) {
  using C = Communicator;
  using B = Buffers;
  const auto gather = [](std::vector<int64_t> counts) {
    return [counts](C& c, B& b) {
      BufferView in = b.part();
      in.count = counts[c.rank()];
      return c.AllGatherV(in, b.whole(), counts);
    };
  };
  ExpectDisagreement(Make(3), gather({1000, 1000, 1000}), gather({900, 1100, 1000}), "1000,1000,1000",
                     "900,1100,1000");
  const auto exchange = [](std::vector<int64_t> sends, std::vector<int64_t> receives) {
    return [sends, receives](C& c, B& b) {
      BufferView in = b.part(), out = b.whole();
      in.count = sends[0] + sends[1] + sends[2];
      out.count = receives[0] + receives[1] + receives[2];
      return c.AllToAllV(in, sends, out, receives);
    };
  };
  ExpectDisagreement(Make(3), exchange({1, 1, 1}, {1, 1, 1}), exchange({1, 5, 1}, {1, 1, 1}),
                     "sends 5 elements", "rank 1, which expects 1");
}

TEST_P(CommunicatorConformance, WrongArgumentsOfOneRankFailOnEveryRank) {
  using C = Communicator;
  using B = Buffers;
  const auto gather = [](C& c, B& b) { return c.AllGather(b.part(), b.whole()); };
  ExpectDisagreement(
      Make(3), gather, [](C& c, B& b) { return c.AllGather(b.part(), b.part()); }, "out has 1000 elements",
      "3 ranks");
  ExpectDisagreement(
      Make(3), [](C& c, B& b) { return c.Broadcast(b.part(), 0); },
      [](C& c, B& b) { return c.Broadcast(b.part(), 3); }, "broadcast", "root 3");
  ExpectDisagreement(
      Make(3), gather,
      [](C& c, B& b) {
        BufferView nothing = b.part();
        nothing.data = nullptr;
        return c.AllGather(nothing, b.whole());
      },
      "in has 1000 elements", "no data");
}

}  // namespace
}  // namespace comm
}  // namespace armature
