#ifndef ARMATURE_TENSOR_OPS_ACTIVATION_H_
#define ARMATURE_TENSOR_OPS_ACTIVATION_H_

#include "armature/tensor/kernels.h"
#include "armature/tensor/tensor.h"

namespace armature {
namespace ops {

// y = activation(x), element by element: GELU (erf or tanh form), SiLU or ReLU.
//
// DTypes:  f32, f16, bf16, f64.
// Errors:  InvalidArgument if x is not of a float dtype.
// Memory:  saves x. Linear's own activation saves a pass over memory.
Tensor Activate(const Tensor& x, Activation activation);

// Softmax over the last dimension.
//
// Shapes:  x [..., n] -> x's
// DTypes:  f32, f16, bf16, f64; sums in f32 (f64 for f64).
// Errors:  InvalidArgument if x is a scalar or not of a float dtype.
// Memory:  saves the result.
Tensor Softmax(const Tensor& x);

}  // namespace ops
}  // namespace armature

#endif  // ARMATURE_TENSOR_OPS_ACTIVATION_H_
