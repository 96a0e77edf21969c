#ifndef ARMATURE_TENSOR_OPS_NORM_H_
#define ARMATURE_TENSOR_OPS_NORM_H_

#include "armature/tensor/tensor.h"

namespace armature {
namespace ops {

// Layer normalisation over the last dimension: y = (x - mean) / sqrt(var + eps) * weight + bias.
//
// Shapes:  x [..., n], weight [n], bias [n] or invalid -> x's
// DTypes:  f32, f16, bf16, f64; statistics in f32 (f64 for f64).
// Errors:  InvalidArgument if shapes or dtypes don't fit.
// Memory:  saves x, and a mean and a reciprocal deviation per row.
// Reference: Ba, Kiros, Hinton, "Layer Normalization" (2016).
Tensor LayerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);

// Root mean square normalisation: y = x / sqrt(mean(x^2) + eps) * weight. Otherwise as LayerNorm without
// bias. Reference: Zhang, Sennrich, "Root Mean Square Layer Normalization" (2019).
Tensor RmsNorm(const Tensor& x, const Tensor& weight, double eps = 1e-5);

}  // namespace ops
}  // namespace armature

#endif  // ARMATURE_TENSOR_OPS_NORM_H_
