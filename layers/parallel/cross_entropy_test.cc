#include "armature/layers/parallel/cross_entropy.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/comm/inproc/inproc_group.h"
#include "armature/comm/on_ranks.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/testing/gradient_place.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Pointwise;

using Values = std::vector<double>;

struct Result {
  Values losses;     // by rank
  Values gradients;  // of the real columns
  Values padding;    // the gradients of the others
};

// Logits [rows, classes], whose columns `size` ranks share out, each padded with `pad`.
Result LossOn(int size, const Values& logits, const std::vector<int32_t>& targets,
              const ops::CrossEntropyOptions& options, DType dtype = DType::kF64, double pad = 0) {
  const int64_t rows = static_cast<int64_t>(targets.size()), classes = options.classes;
  const int64_t width = (classes + size - 1) / size;
  Result result;
  result.losses.resize(size);
  std::vector<Values> parts(size);
  const auto ranks = comm::MakeInprocGroup(size);
  EXPECT_THAT(ranks, IsOk());
  const auto body = [&](comm::Communicator& comm) -> absl::Status {
    const auto backend = *MakeCpuBackend();
    TensorGroup group;
    group.communicator = &comm;
    Values own(rows * width, pad);
    for (int64_t i = 0; i < rows * width; ++i) {
      const int64_t column = comm.rank() * width + i % width;
      if (column < classes) own[i] = logits[i / width * classes + column];
    }
    GradientPlace place(*backend, {rows, width}, dtype);
    Tape tape(*backend);
    const Tensor y =
        ParallelCrossEntropy(group, tape.Watch(FromDoubles(*backend, {rows, width}, own, dtype), &place),
                             Tensor::FromHost<int32_t>(*backend, {rows}, targets, DType::kI32), options);
    if (!y.ok()) return y.status();
    result.losses[comm.rank()] = ToDoubles(y.Detach())[0];
    const absl::Status done = tape.Backward({y}, {FromDoubles(*backend, {}, {1}, y.dtype())});
    parts[comm.rank()] = place.Values();
    return done;
  };
  EXPECT_THAT(comm::OnRanks(*ranks, body), Each(IsOk()));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < size * width; ++column) {
      (column < classes ? result.gradients : result.padding)
          .push_back(parts[column / width][row * width + column % width]);
    }
  }
  return result;
}

ops::CrossEntropyOptions Options(int64_t classes, double smoothing) {
  ops::CrossEntropyOptions options;
  options.classes = classes;
  options.smoothing = smoothing;
  return options;
}

TEST(ParallelCrossEntropy, SmoothingIsOverAllClassesOnEveryRank) {
  for (int size : {1, 2, 4, 8}) {
    for (DType dtype : {DType::kF32, DType::kF64}) {
      const Result result = LossOn(size, {0, 1, 2, 3, 4, 5, 6, 7}, {5}, Options(8, 0.1), dtype);
      EXPECT_THAT(result.losses, Each(DoubleNear(2.608339626, dtype == DType::kF64 ? 1e-9 : 3e-7))) << size;
    }
  }
}

TEST(ParallelCrossEntropy, PaddingTakesNoPart) {
  for (double pad : {0.0, 100.0}) {
    const Result result = LossOn(2, {1, 2, 3}, {2}, Options(3, 0), DType::kF64, pad);
    EXPECT_THAT(result.losses, Each(DoubleNear(.407605964, 1e-9)));
    EXPECT_THAT(result.padding, Each(0.0));
  }
}

TEST(ParallelCrossEntropy, LossAndGradientAreThoseOfOneRank) {
  constexpr int64_t kRows = 6, kClasses = 7;
  Values logits;
  for (int64_t i = 0; i < kRows * kClasses; ++i) logits.push_back(static_cast<double>(i * 29 % 17) / 3);
  const std::vector<int32_t> targets = {0, 6, kIgnoredTarget, 3, 3, 5};
  for (double smoothing : {0.0, 0.1}) {
    const Result alone = LossOn(1, logits, targets, Options(kClasses, smoothing));
    for (int size : {2, 4}) {
      const Result result = LossOn(size, logits, targets, Options(kClasses, smoothing));
      EXPECT_THAT(result.losses, Each(DoubleNear(alone.losses[0], 1e-12)));
      EXPECT_THAT(result.losses, Each(result.losses[0])) << "the same bits on every rank";
      EXPECT_THAT(result.gradients, Pointwise(DoubleNear(1e-14), alone.gradients));
      EXPECT_THAT(result.padding, Each(0.0));
    }
  }
}

TEST(ParallelCrossEntropy, WhatDoesNotFitIsRefusedOnEveryRank) {
  ASSERT_OK_AND_ASSIGN(const auto ranks, comm::MakeInprocGroup(2));
  const auto body = [&](comm::Communicator& comm) {
    const auto backend = *MakeCpuBackend();
    TensorGroup group;
    group.communicator = &comm;
    return ParallelCrossEntropy(group, FromDoubles(*backend, {1, 3}, {1, 2, 3}),
                                Tensor::FromHost<int32_t>(*backend, {1}, {0}, DType::kI32), Options(7, 0))
        .status();
  };
  EXPECT_THAT(
      comm::OnRanks(ranks, body),
      Each(StatusIs(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("ParallelCrossEntropy: logits [1, 3]"), HasSubstr("classes 7")))));
}

TEST(ParallelCrossEntropy, AFailedRankTellsItsPeersAtOnce) {
  ASSERT_OK_AND_ASSIGN(const auto ranks, comm::MakeInprocGroup(2));
  const auto body = [&](comm::Communicator& comm) {
    const auto backend = *MakeCpuBackend();
    TensorGroup group;
    group.communicator = &comm;
    const Tensor logits = comm.rank() == 1 ? Tensor::Failed(absl::DataLossError("a torn page"))
                                           : FromDoubles(*backend, {1, 3}, {1, 2, 3});
    return ParallelCrossEntropy(group, logits, Tensor::FromHost<int32_t>(*backend, {1}, {0}, DType::kI32),
                                Options(6, 0))
        .status();
  };
  const std::vector<absl::Status> results = comm::OnRanks(ranks, body);
  EXPECT_THAT(results[1], StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(results[0], StatusIs(absl::StatusCode::kCancelled, HasSubstr("a torn page")));
}

}  // namespace
}  // namespace armature
