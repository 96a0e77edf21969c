#ifndef ARMATURE_LAYERS_PARALLEL_CROSS_ENTROPY_H_
#define ARMATURE_LAYERS_PARALLEL_CROSS_ENTROPY_H_

#include "armature/layers/parallel/tensor_group.h"
#include "armature/tensor/ops/loss.h"
#include "armature/tensor/tensor.h"

namespace armature {

// ops::CrossEntropy of logits whose columns the ranks of the tensor axis share out: rank r has classes
// [r n, (r + 1) n), and those at and after options.classes are padding. No logits are exchanged: the ranks
// gather four numbers a row (maximum, sum of exponentials, target's logit, sum of logits), and each has the
// whole loss, with the same bits.
//
// Shapes:  logits [..., n], targets [...] -> []
// Errors:  those of ops::CrossEntropy and of the communicator; an error on one rank aborts the group.
// Memory:  saves the logits, whose memory becomes the gradient's where nobody else holds it, the targets, and
//          one number a row. Exchanges 32 bytes a row and rank.
Tensor ParallelCrossEntropy(const TensorGroup& group, const Tensor& logits, const Tensor& targets,
                            const ops::CrossEntropyOptions& options);

}  // namespace armature

#endif  // ARMATURE_LAYERS_PARALLEL_CROSS_ENTROPY_H_
