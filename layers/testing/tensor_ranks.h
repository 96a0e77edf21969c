// RunOnTensorRanks: a layer, or a whole model, on all ranks of a tensor group, and what it gives as one rank
// would: the parts put together again.
//
//   const auto build = [](ModuleBuilder::Shared& shared) {
//     auto layer = std::make_shared<Mlp>(ModuleBuilder(shared), options);
//     return [layer](Context& context, const Tensor& x) { return (*layer)(context, x); };
//   };
//   TensorRun run;
//   run.x = {2, 4, 8};
//   const TensorResult serial = RunOnTensorRanks(run, build);
//   run.size = 2;
//   ExpectNear(RunOnTensorRanks(run, build), serial, 1e-12);
#ifndef ARMATURE_LAYERS_TESTING_TENSOR_RANKS_H_
#define ARMATURE_LAYERS_TESTING_TENSOR_RANKS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "armature/layers/context.h"
#include "armature/layers/module_builder.h"

namespace armature {

struct TensorRun {
  int size = 1;
  bool sequence_parallel = false;
  bool training = false;
  DType dtype = DType::kF64;
  // Of the whole input, [samples, positions, n]; with sequence parallelism a rank gets its slice of the
  // positions, and so must be the result. [0]: there is no input.
  Shape x = {0};
  int64_t samples = 1;
  // i32 fields of the batch, by name: [samples, positions].
  std::vector<std::pair<std::string, std::vector<int32_t>>> fields;
};

// On a rank: from the input to the result, whose gradient the test makes up.
using TensorForward = std::function<Tensor(Context& context, const Tensor& x)>;
// Called on each rank.
using TensorBuild = std::function<TensorForward(ModuleBuilder::Shared& shared)>;

using NamedValues = std::vector<std::pair<std::string, std::vector<double>>>;

struct TensorResult {
  std::vector<double> y, dx;
  NamedValues weights, gradients;  // of the whole parameters
};

// Expects that what several ranks hold has the same bits on all of them, and that padding is 0.
TensorResult RunOnTensorRanks(const TensorRun& run, const TensorBuild& build);

// ||actual - expected|| <= tolerance * ||expected|| for the result and each gradient; weights have the same
// bits.
void ExpectNear(const TensorResult& actual, const TensorResult& expected, double tolerance);

}  // namespace armature

#endif  // ARMATURE_LAYERS_TESTING_TENSOR_RANKS_H_
