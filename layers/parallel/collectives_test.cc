#include "armature/layers/parallel/collectives.h"

#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/comm/inproc/inproc_group.h"
#include "armature/comm/on_ranks.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/testing/gradient_place.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Values = std::vector<double>;

// What a collective does on one rank: result and gradient.
struct Outcome {
  Shape shape;
  Values forward, backward;
};

using Collective = std::function<Tensor(const TensorGroup&, const Tensor&)>;

// Runs `collective` on ranks whose inputs are input(rank), and back from gradients seed(rank).
std::vector<Outcome> OnTensorRanks(int size, const Shape& shape, const Collective& collective,
                                   const std::function<Values(int)>& input,
                                   const std::function<Values(int)>& seed) {
  std::vector<Outcome> outcomes(size);
  const auto ranks = comm::MakeInprocGroup(size);
  EXPECT_THAT(ranks, IsOk());
  const auto body = [&](comm::Communicator& comm) -> absl::Status {
    const auto backend = *MakeCpuBackend();
    TensorGroup group;
    group.communicator = &comm;
    Outcome& outcome = outcomes[comm.rank()];
    GradientPlace place(*backend, shape, DType::kF64);
    const Tensor x = FromDoubles(*backend, shape, input(comm.rank()), DType::kF64);
    {
      Tape tape(*backend);
      const Tensor y = collective(group, ops::Scale(tape.Watch(x, &place), 1));
      if (!y.ok()) return y.status();
      outcome.shape = y.shape();
      outcome.forward = ToDoubles(y.Detach());
      const Tensor dy = FromDoubles(*backend, y.shape(), seed(comm.rank()), DType::kF64);
      const absl::Status status = tape.Backward({y}, {dy});
      if (!status.ok()) return status;
      EXPECT_EQ(ToDoubles(dy), seed(comm.rank())) << "the seed belongs to the caller";
    }
    EXPECT_EQ(ToDoubles(x), input(comm.rank()));
    outcome.backward = place.Values();
    return absl::OkStatus();
  };
  EXPECT_THAT(comm::OnRanks(*ranks, body), Each(IsOk()));
  return outcomes;
}

// 0, 1, 2 ... plus 100 for each rank.
std::function<Values(int)> Counting(int64_t count) {
  return [count](int rank) {
    Values values(count);
    std::iota(values.begin(), values.end(), 100.0 * rank);
    return values;
  };
}

TEST(CopyToTensorAxis, CopiesAndSumsTheGradients) {
  for (const Outcome& outcome :
       OnTensorRanks(2, {3}, CopyToTensorAxis, Counting(3), [](int rank) { return Values(3, rank + 1); }))
    EXPECT_THAT(outcome.backward, ElementsAre(3, 3, 3));
}

TEST(ReduceFromTensorAxis, SumsAndCopiesTheGradient) {
  const auto outcomes = OnTensorRanks(4, {2}, ReduceFromTensorAxis, Counting(2), Counting(2));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(outcomes[rank].forward, ElementsAre(600, 604));
    EXPECT_THAT(outcomes[rank].backward, ElementsAre(100 * rank, 100 * rank + 1));
  }
}

TEST(GatherFromTensorAxis, PutsLastDimensionsSideBySide) {
  const auto gather = [](const TensorGroup& group, const Tensor& x) {
    return GatherFromTensorAxis(group, x);
  };
  const auto outcomes = OnTensorRanks(2, {2, 2}, gather, Counting(4), Counting(8));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outcomes[rank].shape, (Shape{2, 4}));
    EXPECT_THAT(outcomes[rank].forward, ElementsAre(0, 1, 100, 101, 2, 3, 102, 103));
  }
  EXPECT_THAT(outcomes[0].backward, ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(outcomes[1].backward, ElementsAre(102, 103, 106, 107));
}

TEST(GatherFromTensorAxis, LeavesPaddingOutAndGivesItNoGradient) {
  const auto gather = [](const TensorGroup& group, const Tensor& x) {
    return GatherFromTensorAxis(group, x, -1, 5);  // parts of 2, 2, 1 and 0
  };
  const auto outcomes = OnTensorRanks(4, {2, 2}, gather, Counting(4), Counting(10));
  for (const Outcome& outcome : outcomes)
    EXPECT_THAT(outcome.forward, ElementsAre(0, 1, 100, 101, 200, 2, 3, 102, 103, 202));
  EXPECT_THAT(outcomes[1].backward, ElementsAre(102, 103, 107, 108));
  EXPECT_THAT(outcomes[2].backward, ElementsAre(204, 0, 209, 0));
  EXPECT_THAT(outcomes[3].backward, Each(0.0));
}

TEST(ScatterToTensorAxis, TakesTheOwnPartAndGathersTheGradients) {
  const auto scatter = [](const TensorGroup& group, const Tensor& x) {
    return ScatterToTensorAxis(group, x);
  };
  const auto outcomes = OnTensorRanks(
      2, {2, 4}, scatter, [](int) { return Counting(8)(0); }, Counting(4));
  EXPECT_THAT(outcomes[0].forward, ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(outcomes[1].forward, ElementsAre(2, 3, 6, 7));
  for (const Outcome& outcome : outcomes)
    EXPECT_THAT(outcome.backward, ElementsAre(0, 1, 100, 101, 2, 3, 102, 103));
}

TEST(GatherSequence, JoinsSlicesAndScattersTheSumOfTheGradients) {
  for (int64_t samples : {1, 2}) {
    // [samples, 2 of 4 positions, 1].
    const auto outcomes =
        OnTensorRanks(2, {samples, 2, 1}, GatherSequence, Counting(2 * samples), Counting(4 * samples));
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.shape, (Shape{samples, 4, 1}));
    if (samples == 1) {
      EXPECT_THAT(outcomes[0].forward, ElementsAre(0, 1, 100, 101));
      EXPECT_THAT(outcomes[0].backward, ElementsAre(100, 102));
      EXPECT_THAT(outcomes[1].backward, ElementsAre(104, 106));
    } else {
      EXPECT_THAT(outcomes[1].forward, ElementsAre(0, 1, 100, 101, 2, 3, 102, 103));
      EXPECT_THAT(outcomes[0].backward, ElementsAre(100, 102, 108, 110));
      EXPECT_THAT(outcomes[1].backward, ElementsAre(104, 106, 112, 114));
    }
  }
}

TEST(ScatterSequence, DealsTheSumOutAndJoinsTheGradients) {
  const auto outcomes = OnTensorRanks(2, {2, 2, 2}, ScatterSequence, Counting(8), Counting(4));
  EXPECT_EQ(outcomes[0].shape, (Shape{2, 1, 2}));
  EXPECT_THAT(outcomes[0].forward, ElementsAre(100, 102, 108, 110));
  EXPECT_THAT(outcomes[1].forward, ElementsAre(104, 106, 112, 114));
  for (const Outcome& outcome : outcomes)
    EXPECT_THAT(outcome.backward, ElementsAre(0, 1, 100, 101, 2, 3, 102, 103));
}

const std::vector<Collective>& All() {
  static const std::vector<Collective> all = {
      CopyToTensorAxis,
      ReduceFromTensorAxis,
      [](const TensorGroup& group, const Tensor& x) { return GatherFromTensorAxis(group, x); },
      [](const TensorGroup& group, const Tensor& x) { return ScatterToTensorAxis(group, x); },
      GatherSequence,
      ScatterSequence};
  return all;
}

TEST(Collectives, AGroupOfOneReturnsItsInput) {
  ASSERT_OK_AND_ASSIGN(const auto backend, MakeCpuBackend());
  ASSERT_OK_AND_ASSIGN(const auto alone, comm::MakeInprocGroup(1));
  GradientPlace place(*backend, {2, 2, 2});
  Tape tape(*backend);
  const Tensor x = tape.Watch(FromDoubles(*backend, {2, 2, 2}, Values(8, 1)), &place);
  TensorGroup group;
  for (bool with_communicator : {false, true}) {
    group.communicator = with_communicator ? alone[0].get() : nullptr;
    for (const Collective& collective : All()) {
      const Tensor y = collective(group, x);
      EXPECT_EQ(y.data(), x.data());
      EXPECT_EQ(y.tape_value(), x.tape_value());
    }
    EXPECT_EQ(EnterRegion(group, x).data(), x.data());
  }
}

TEST(Collectives, AFailedRankTellsItsPeersAtOnce) {
  for (const Collective& collective : All()) {
    ASSERT_OK_AND_ASSIGN(const auto ranks, comm::MakeInprocGroup(2));
    const auto body = [&](comm::Communicator& comm) {
      const auto backend = *MakeCpuBackend();
      TensorGroup group;
      group.communicator = &comm;
      const Tensor x = comm.rank() == 1 ? Tensor::Failed(absl::DataLossError("a torn page"))
                                        : FromDoubles(*backend, {2, 2, 2}, Values(8, 1));
      const Tensor y = collective(group, x);
      if (comm.rank() == 1) return y.status();
      return comm.AllReduce(FromDoubles(*backend, {1}, {1}).view(), comm::ReduceOp::kSum).Wait();
    };
    const std::vector<absl::Status> results = comm::OnRanks(ranks, body);
    EXPECT_THAT(results[1], StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_THAT(results[0], StatusIs(absl::StatusCode::kCancelled, HasSubstr("a torn page")));
  }
}

TEST(Collectives, ADimensionThatTheRanksDontDivideIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto ranks, comm::MakeInprocGroup(2));
  const auto body = [&](comm::Communicator& comm) {
    const auto backend = *MakeCpuBackend();
    TensorGroup group;
    group.communicator = &comm;
    return ScatterSequence(group, FromDoubles(*backend, {2, 3, 1}, Values(6, 1))).status();
  };
  EXPECT_THAT(comm::OnRanks(ranks, body),
              Each(StatusIs(absl::StatusCode::kInvalidArgument,
                            AllOf(HasSubstr("ScatterSequence: x [2, 3, 1]"), HasSubstr("tensor size 2")))));
}

}  // namespace
}  // namespace armature
