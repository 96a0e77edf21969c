// Linear layers whose weights the ranks of the tensor axis share out: by columns into a tensor-parallel
// region, by rows out of it. Two of them around anything that works column by column need one exchange at
// each end:
//
//   Tensor y = down(context, up(context, x));   // Mlp; the same numbers for every tensor size
//
// With one rank they are Linear, at no cost.
//
// Reference: Shoeybi et al., "Megatron-LM: training multi-billion parameter language models using model
// parallelism" (2019), section 3.
#ifndef ARMATURE_LAYERS_PARALLEL_PARALLEL_LINEAR_H_
#define ARMATURE_LAYERS_PARALLEL_PARALLEL_LINEAR_H_

#include <vector>

#include "armature/layers/context.h"
#include "armature/layers/linear.h"
#include "armature/layers/module_builder.h"

namespace armature {

// y = activation(x weight + bias), of which each rank has its columns.
//
// Parameters:  weight [in, out] and bias [out], split along out
// Shapes:      x [..., in], or with sequence parallelism this rank's slice of the sequence -> [..., out /
// size] Errors:      InvalidArgument, at build, if the tensor size does not divide out or a section; those of
//              ops::Linear and of the collectives.
// Memory:      saves x, with sequence parallelism that of the whole sequence.
class ColumnParallelLinear {
 public:
  // `sections`: widths that are split each by itself, as in Sharding: {h, h, h} for q, k and v by head.
  ColumnParallelLinear(ModuleBuilder builder, const LinearOptions& options,
                       std::vector<int64_t> sections = {});

  Tensor operator()(Context& context, const Tensor& x) const;
  // The same for an x that is inside of the region already (EnterRegion): several layers share one entry.
  Tensor Inside(Context& context, const Tensor& x) const;

 private:
  Activation activation_;
  bool has_bias_;
  ParameterId weight_, bias_;
};

// y = x weight + bias, from x whose columns are shared out. The bias is added once, after the sum over ranks.
//
// Parameters:  weight [in, out], split along in; bias [out], on every rank
// Shapes:      x [..., in / size] -> [..., out], or with sequence parallelism this rank's slice of it
// Errors:      InvalidArgument, at build, if the tensor size does not divide `in` or there is an activation;
//              those of ops::Linear and of the collectives.
class RowParallelLinear {
 public:
  RowParallelLinear(ModuleBuilder builder, const LinearOptions& options);

  Tensor operator()(Context& context, const Tensor& x) const;

 private:
  bool has_bias_;
  ParameterId weight_, bias_;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_PARALLEL_PARALLEL_LINEAR_H_
