// Sums, products, casts and slices. All are for f32, f16, bf16 and f64 tensors; shapes and dtypes that don't
// fit are InvalidArgument with both in the message.
#ifndef ARMATURE_TENSOR_OPS_ELEMENTWISE_H_
#define ARMATURE_TENSOR_OPS_ELEMENTWISE_H_

#include "armature/tensor/tensor.h"

namespace armature {
namespace ops {

// a + b. Shapes: equal. Memory: saves nothing; both gradients share one tensor.
Tensor Add(const Tensor& a, const Tensor& b);

// x + b for every leading index of x. Shapes: x [..., s], b [s], where s may have several dimensions:
// positions [length, n] on a batch [samples, length, n]. Memory: saves nothing.
Tensor AddBroadcast(const Tensor& x, const Tensor& b);

// factor * x. Memory: saves nothing.
Tensor Scale(const Tensor& x, double factor);

// a * b, element by element. Shapes: equal. Memory: saves a and b.
Tensor Multiply(const Tensor& a, const Tensor& b);

// The sum of all elements, in a fixed order. Shapes: any -> []. DTypes: f32 out (f64 for f64). Memory: saves
// nothing.
Tensor Sum(const Tensor& x);

// Elements [begin, end) of the leading dimension, with a gradient. Errors: OutOfRange. Memory: saves nothing;
// a view.
Tensor Slice(const Tensor& x, int64_t begin, int64_t end);

// x in another float dtype, rounded to nearest even; x itself if it has that dtype. Memory: saves nothing.
Tensor Cast(const Tensor& x, DType dtype);

}  // namespace ops
}  // namespace armature

#endif  // ARMATURE_TENSOR_OPS_ELEMENTWISE_H_
