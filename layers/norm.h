#ifndef ARMATURE_LAYERS_NORM_H_
#define ARMATURE_LAYERS_NORM_H_

#include "armature/layers/context.h"
#include "armature/layers/module_builder.h"

namespace armature {

// Layer normalisation over the last dimension (ops::LayerNorm).
//
// Parameters:  weight [n], from 1; bias [n], from 0
// Shapes:      x [..., n], or a slice of the sequence -> x's
class LayerNorm {
 public:
  LayerNorm(ModuleBuilder builder, int64_t n, double eps = 1e-5);
  Tensor operator()(Context& context, const Tensor& x) const;

 private:
  double eps_;
  ParameterId weight_, bias_;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_NORM_H_
