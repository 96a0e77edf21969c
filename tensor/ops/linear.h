#ifndef ARMATURE_TENSOR_OPS_LINEAR_H_
#define ARMATURE_TENSOR_OPS_LINEAR_H_

#include "armature/tensor/kernels.h"
#include "armature/tensor/tensor.h"

namespace armature {
namespace ops {

struct LinearOptions {
  // The weight is stored [out, in]: a head that is tied to an embedding table. Default: [in, out].
  bool weight_is_out_in = false;
  // Applied to x w + b in the same operation.
  Activation activation = Activation::kNone;
};

// Linear layer's product: y = activation(x w + b).
//
// Shapes:  x [..., in], w [in, out] (or [out, in]), b [out] or invalid -> [..., out]
// DTypes:  f32, f16, bf16, f64, the same for all; products accumulate in f32 (f64 for f64).
// Errors:  InvalidArgument if shapes or dtypes don't fit (the message has them).
// Memory:  saves x and, with an activation, x w + b; no copies. The weight's gradient is added straight into
// its slot,
//          and can be deferred (BackwardOptions).
Tensor Linear(const Tensor& x, const Tensor& w, const Tensor& b, const LinearOptions& options = {});

}  // namespace ops
}  // namespace armature

#endif  // ARMATURE_TENSOR_OPS_LINEAR_H_
