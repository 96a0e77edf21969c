// ExpectGradients: an operation's backward against central differences of its forward, in f64.
//
//   ExpectGradients({{2, 3}, {3}}, [](const std::vector<Tensor>& in) { return ops::AddBroadcast(in[0],
//   in[1]); });
#ifndef ARMATURE_TENSOR_TESTING_GRADIENT_CHECK_H_
#define ARMATURE_TENSOR_TESTING_GRADIENT_CHECK_H_

#include <functional>
#include <vector>

#include "armature/tensor/tensor.h"

namespace armature {

using TensorFunction = std::function<Tensor(const std::vector<Tensor>& in)>;

// Inputs of these shapes get fixed values in [-1, 1); the loss is a fixed weighting of the result's elements.
// Expects
// ||analytic - numeric|| <= tolerance * ||numeric|| for each input, and the same again when gradients are
// added to what is in their place already.
void ExpectGradients(const std::vector<Shape>& shapes, const TensorFunction& function,
                     double tolerance = 1e-7);

}  // namespace armature

#endif  // ARMATURE_TENSOR_TESTING_GRADIENT_CHECK_H_
