// What ranks of the tensor axis do with each other's parts of a tensor, as plain moves without gradients.
//
// In:      tensors on no tape; the group has more than one rank.
// Errors:  those of the communicator. An input that has failed, and memory that runs out, fail the whole
//          group with that error: peers that wait for this rank learn at once who failed, and why.
#ifndef ARMATURE_LAYERS_PARALLEL_EXCHANGE_H_
#define ARMATURE_LAYERS_PARALLEL_EXCHANGE_H_

#include "absl/status/status.h"
#include "armature/layers/parallel/tensor_group.h"
#include "armature/tensor/tensor.h"

namespace armature {

// How a dimension of a tensor is dealt out: rank r has [r * part, (r + 1) * part) of `whole` elements, and
// what lies past the end is padding.
struct Deal {
  int dim = 0;
  int64_t whole = 0;
  int64_t part = 0;
};

// Aborts the group with `why`, which comes out in the tensor.
Tensor FailGroup(const TensorGroup& group, const absl::Status& why);

// The sum over the ranks. Memory: x's own, if no other handle holds it, or a copy.
Tensor SumOverRanks(const TensorGroup& group, const Tensor& x);

// The whole from all ranks' parts, without the padding. Memory: a staging copy of the whole, unless the
// dimension is the first of more than one element.
Tensor GatherParts(const TensorGroup& group, const Tensor& part, const Deal& deal);

// This rank's part of the sum over the ranks. No padding: deal.whole is size * deal.part. Memory: as above.
Tensor SumAndDeal(const TensorGroup& group, const Tensor& whole, const Deal& deal);

// This rank's part, padded with zeros. Moves nothing between ranks.
Tensor OwnPart(const TensorGroup& group, const Tensor& whole, const Deal& deal);

}  // namespace armature

#endif  // ARMATURE_LAYERS_PARALLEL_EXCHANGE_H_
