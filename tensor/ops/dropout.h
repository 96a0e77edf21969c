#ifndef ARMATURE_TENSOR_OPS_DROPOUT_H_
#define ARMATURE_TENSOR_OPS_DROPOUT_H_

#include "armature/tensor/random.h"
#include "armature/tensor/tensor.h"

namespace armature {
namespace ops {

// residual + dropout(x): each element of x is dropped with probability p, and kept ones are scaled by 1 / (1
// - p). `region` says which elements of the global batch x holds, so that masks don't depend on the layout
// (tensor/random.h); nothing of the mask is stored.
//
// Shapes:  x [samples, ...] with region.rows * region.cols elements a sample; residual like x or invalid ->
// x's DTypes:  f32, f16, bf16, f64. Errors:  InvalidArgument if shapes or dtypes don't fit or p is not in [0,
// 1]. Memory:  saves nothing. p = 0 without residual returns x itself.
Tensor Dropout(const Tensor& x, const Tensor& residual, double p, const RandomRegion& region);

}  // namespace ops
}  // namespace armature

#endif  // ARMATURE_TENSOR_OPS_DROPOUT_H_
