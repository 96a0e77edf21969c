#ifndef ARMATURE_LAYERS_LINEAR_H_
#define ARMATURE_LAYERS_LINEAR_H_

#include "armature/layers/context.h"
#include "armature/layers/module_builder.h"
#include "armature/tensor/kernels.h"

namespace armature {

struct LinearOptions {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;                              // starts at 0
  Activation activation = Activation::kNone;     // fused: activation(x w + b)
  Initializer init = Initializer::Normal(0.02);  // of the weight
  // With sequence parallelism x is this rank's slice of the sequence, as everywhere between tensor-parallel
  // regions. False: it is the same on every rank of the tensor axis, such as a pooled vector.
  bool on_slices = true;
};

// y = activation(x weight + bias). Every rank of the tensor axis has the whole weight
// (parallel/parallel_linear.h has layers whose weights are shared out).
//
// Parameters:  weight [in, out], bias [out]
// Shapes:      x [..., in] -> [..., out]
// Errors:      those of ops::Linear.
class Linear {
 public:
  Linear(ModuleBuilder builder, const LinearOptions& options);
  Tensor operator()(Context& context, const Tensor& x) const;

 private:
  Activation activation_;
  bool has_bias_;
  ParameterId weight_, bias_;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_LINEAR_H_
