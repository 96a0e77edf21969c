// Collectives of the tensor axis with gradients, as conjugate pairs: one's backward is the other's forward.
//
//   function              forward                 backward
//   CopyToTensorAxis      nothing                 all-reduce         into a region, from the same x
//   everywhere ReduceFromTensorAxis  all-reduce              nothing            out of it, from partial sums
//   GatherFromTensorAxis  all-gather              own part           parts become the whole everywhere
//   ScatterToTensorAxis   own part                all-gather         and the other way around
//   GatherSequence        all-gather of dim 1     reduce-scatter     into a region, from slices of the
//   sequence ScatterSequence       reduce-scatter, dim 1   all-gather         out of it, from partial sums
//
// Shapes:  any; the sequence is dimension 1 of [samples, positions, ...].
// DTypes:  f32, f16, bf16, f64.
// Errors:  those of the communicator; InvalidArgument if the ranks don't divide the dimension. An input that
//          has failed aborts the group, so that no peer waits for this rank.
// Memory:  saves nothing. Reductions work in x's memory where nobody else holds it: hand it over. Moves along
//          a dimension with others before it need one more copy, between the ranks' order and the tensor's.
// A group of one rank returns x itself. Waits are bounded by the group's own timeout.
//
// Reference: Shoeybi et al., "Megatron-LM" (2019), section 3; Korthikanti et al., "Reducing activation
// recomputation in large transformer models" (2022), section 4.2.
#ifndef ARMATURE_LAYERS_PARALLEL_COLLECTIVES_H_
#define ARMATURE_LAYERS_PARALLEL_COLLECTIVES_H_

#include "armature/layers/parallel/tensor_group.h"
#include "armature/tensor/tensor.h"

namespace armature {

Tensor CopyToTensorAxis(const TensorGroup& group, Tensor x);
Tensor ReduceFromTensorAxis(const TensorGroup& group, Tensor x);

// `dim` as in Shape::dim. `whole`: the extent of the result, where the last ranks' parts are padded; 0: all
// of every part.
Tensor GatherFromTensorAxis(const TensorGroup& group, Tensor x, int dim = -1, int64_t whole = 0);
Tensor ScatterToTensorAxis(const TensorGroup& group, Tensor x, int dim = -1);

Tensor GatherSequence(const TensorGroup& group, Tensor x);
Tensor ScatterSequence(const TensorGroup& group, Tensor x);

// Into and out of a tensor-parallel region, where each rank has a part of the layers: by the sequence if the
// group is sequence parallel, otherwise by copy and all-reduce.
Tensor EnterRegion(const TensorGroup& group, Tensor x);
Tensor LeaveRegion(const TensorGroup& group, Tensor partial_sum);

}  // namespace armature

#endif  // ARMATURE_LAYERS_PARALLEL_COLLECTIVES_H_
