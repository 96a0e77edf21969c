#ifndef ARMATURE_TENSOR_OPS_LOSS_H_
#define ARMATURE_TENSOR_OPS_LOSS_H_

#include "armature/tensor/kernels.h"
#include "armature/tensor/tensor.h"

namespace armature {
namespace ops {

struct CrossEntropyOptions {
  // The first `classes` columns of the logits are real, the rest pads the vocabulary and takes no part. 0:
  // all.
  int64_t classes = 0;
  // Label smoothing e in [0, 1): (1-e) nll + e/classes * sum over classes of -log p.
  double smoothing = 0;
};

// Softmax cross-entropy, summed over the counted targets (not a mean: the step divides once, by the targets
// of all microbatches and ranks). Rows whose target is kIgnoredTarget (-100) give no loss and no gradient.
// Probabilities are never stored, and where nobody else holds the logits their memory becomes the gradient's.
//
// Shapes:  logits [..., n], targets [...] -> []
// DTypes:  logits f32, f16, bf16, f64; targets i32; the loss f32 (f64 for f64).
// Errors:  InvalidArgument if shapes, dtypes, classes or smoothing don't fit. A target is data, and is not
// checked here. Memory:  saves the logits, the targets and one number a row. Reference: Szegedy et al.,
// "Rethinking the Inception architecture" (2016), section 7 (smoothing).
Tensor CrossEntropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

}  // namespace ops
}  // namespace armature

#endif  // ARMATURE_TENSOR_OPS_LOSS_H_
