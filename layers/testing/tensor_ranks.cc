#include "armature/layers/testing/tensor_ranks.h"

#include <cmath>
#include <memory>
#include <set>

#include "armature/base/status_macros.h"
#include "armature/base/status_matchers.h"
#include "armature/comm/inproc/inproc_group.h"
#include "armature/comm/on_ranks.h"
#include "armature/layers/testing/test_parameters.h"
#include "armature/tensor/cpu/cpu_backend.h"

namespace armature {
namespace {

using ::testing::Each;

using Values = std::vector<double>;

// What one rank holds at the end.
struct RankResult {
  Shape y_shape, dx_shape;
  Values y, dx;
  std::vector<ParameterSpec> specs;
  std::vector<Values> weights, gradients;
};

Values MadeUp(int64_t count, int seed) {
  Values values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<double>((i * 37 + seed * 11) % 23 - 11) / 8;
  return values;
}

// This rank's slice of the positions of a whole [samples, positions, ...].
Tensor SliceOf(const TensorRun& run, Backend& backend, const Shape& shape, const Values& whole, int rank) {
  if (!run.sequence_parallel || shape.rank() < 2) return FromDoubles(backend, shape, whole, run.dtype);
  const int64_t samples = shape.dim(0), row = shape.num_elements() / samples, part = row / run.size;
  Values values;
  for (int64_t s = 0; s < samples; ++s) {
    const auto begin = whole.begin() + s * row + rank * part;
    values.insert(values.end(), begin, begin + part);
  }
  return FromDoubles(backend, shape.WithDim(1, shape.dim(1) / run.size), values, run.dtype);
}

// The whole from all ranks' slices.
Values Join(const TensorRun& run, const std::vector<RankResult>& ranks, Values RankResult::*values,
            Shape RankResult::*shape) {
  if (!run.sequence_parallel || (ranks[0].*shape).rank() < 2) {
    for (const RankResult& rank : ranks)
      EXPECT_EQ(rank.*values, ranks[0].*values) << "bits differ over ranks";
    return ranks[0].*values;
  }
  const int64_t samples = (ranks[0].*shape).dim(0);
  Values whole;
  for (int64_t s = 0; s < samples; ++s) {
    for (const RankResult& rank : ranks) {
      const int64_t part = static_cast<int64_t>((rank.*values).size()) / samples;
      whole.insert(whole.end(), (rank.*values).begin() + s * part, (rank.*values).begin() + (s + 1) * part);
    }
  }
  return whole;
}

// A whole parameter, or its gradient, from all ranks' parts.
Values JoinParts(const std::vector<RankResult>& ranks, size_t index, std::vector<Values> RankResult::*parts,
                 bool is_gradient) {
  const ParameterSpec& first = ranks[0].specs[index];
  if ((ranks[0].*parts)[index].empty()) return {};
  Values whole(first.global_shape.num_elements());
  for (const RankResult& rank : ranks) {
    const ParameterSpec& spec = rank.specs[index];
    Values part = (rank.*parts)[index];
    if (spec.sharding.dim < 0) {
      const bool sums = is_gradient && spec.sharding.partial_gradient;
      EXPECT_TRUE(sums || part == (ranks[0].*parts)[index]) << spec.name << ": bits differ over ranks";
      for (size_t i = 0; i < whole.size(); ++i) whole[i] = sums ? whole[i] + part[i] : part[i];
      continue;
    }
    const int64_t count = static_cast<int64_t>(part.size());
    for (const ShardRun& run : RunsOf(spec.global_shape, spec.sharding, 0, count)) {
      for (int64_t i = 0; i < run.count; ++i) whole[run.global + i] = std::exchange(part[run.local + i], 0);
    }
    EXPECT_THAT(part, Each(0.0)) << spec.name << ": padding";
  }
  return whole;
}

absl::Status RunRank(const TensorRun& run, const TensorBuild& build, comm::Communicator& comm,
                     RankResult& result) {
  const int rank = comm.rank();
  ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeCpuBackend());
  ParameterRegistry registry;
  ModuleBuilder::Shared shared;
  shared.registry = &registry;
  shared.tensor_rank = rank;
  shared.tensor_size = run.size;
  shared.sequence_parallel = run.sequence_parallel;
  const TensorForward forward = build(shared);
  ARMATURE_RETURN_IF_ERROR(shared.status);
  TestParameters parameters(*backend, registry, run.dtype);
  MicroBatch batch;
  batch.samples = run.samples;
  batch.first_sample = 3;
  for (const auto& [name, ids] : run.fields) {
    const Shape shape{run.samples, static_cast<int64_t>(ids.size()) / run.samples};
    batch.fields.emplace_back(name, Tensor::FromHost<int32_t>(*backend, shape, ids, DType::kI32));
  }
  Tape tape(*backend);
  Context::Options options;
  options.parameters = &parameters;
  options.batch = &batch;
  options.tape = &tape;
  options.training = run.training;
  options.seed = 5;
  options.tensor.communicator = &comm;
  options.tensor.sequence_parallel = run.sequence_parallel;
  Context context(*backend, options);
  const Tensor x = SliceOf(run, *backend, run.x, MadeUp(run.x.num_elements(), 1), rank);
  GradientPlace place(*backend, x.shape(), run.dtype);
  const Tensor y = forward(context, tape.Watch(x, &place));
  ARMATURE_RETURN_IF_ERROR(y.status());
  result.y_shape = y.shape();
  result.y = ToDoubles(y.Detach());
  const bool sliced = run.sequence_parallel && y.shape().rank() >= 2;
  const Shape whole = sliced ? y.shape().WithDim(1, y.shape().dim(1) * run.size) : y.shape();
  const Tensor dy = SliceOf(run, *backend, whole, MadeUp(whole.num_elements(), 2), rank);
  ARMATURE_RETURN_IF_ERROR(tape.Backward({y}, {dy}));
  result.dx_shape = x.shape();
  if (place.contributions() > 0) result.dx = place.Values();
  result.specs = registry.specs();
  for (const ParameterSpec& spec : registry.specs()) result.weights.push_back(parameters.Values(spec.name));
  result.gradients = parameters.Gradients();
  return absl::OkStatus();
}

void ExpectNear(const Values& actual, const Values& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += std::pow(actual[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  // The second term is for what is 0 by mathematics, such as the gradient of a key's bias.
  EXPECT_LE(std::sqrt(difference), tolerance * (std::sqrt(norm) + 1e-2))
      << what << ", of norm " << std::sqrt(norm);
}

}  // namespace

TensorResult RunOnTensorRanks(const TensorRun& run, const TensorBuild& build) {
  TensorResult result;
  const auto group = comm::MakeInprocGroup(run.size);
  EXPECT_THAT(group, IsOk());
  std::vector<RankResult> ranks(run.size);
  const std::vector<absl::Status> done = comm::OnRanks(*group, [&](comm::Communicator& comm) {
    const absl::Status status = RunRank(run, build, comm, ranks[comm.rank()]);
    if (!status.ok()) comm.Abort(status);
    return status;
  });
  EXPECT_THAT(done, Each(IsOk()));
  if (::testing::Test::HasFailure()) return result;
  result.y = Join(run, ranks, &RankResult::y, &RankResult::y_shape);
  result.dx = Join(run, ranks, &RankResult::dx, &RankResult::dx_shape);
  for (size_t i = 0; i < ranks[0].specs.size(); ++i) {
    const std::string& name = ranks[0].specs[i].name;
    result.weights.emplace_back(name, JoinParts(ranks, i, &RankResult::weights, false));
    result.gradients.emplace_back(name, JoinParts(ranks, i, &RankResult::gradients, true));
  }
  return result;
}

void ExpectNear(const TensorResult& actual, const TensorResult& expected, double tolerance) {
  EXPECT_EQ(actual.weights, expected.weights) << "initial weights depend on the tensor size";
  ExpectNear(actual.y, expected.y, tolerance, "the result");
  ExpectNear(actual.dx, expected.dx, tolerance, "the input's gradient");
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (size_t i = 0; i < actual.gradients.size(); ++i)
    ExpectNear(actual.gradients[i].second, expected.gradients[i].second, tolerance,
               actual.gradients[i].first);
}

}  // namespace armature
