#include "armature/layers/norm.h"

#include "armature/tensor/ops/norm.h"

namespace armature {

LayerNorm::LayerNorm(ModuleBuilder builder, int64_t n, double eps)
    : eps_(eps),
      weight_(builder.Parameter("weight", {n}, Initializer::Constant(1), builder.WholeOnSlices())),
      bias_(builder.Parameter("bias", {n}, Initializer::Constant(0), builder.WholeOnSlices())) {}

Tensor LayerNorm::operator()(Context& context, const Tensor& x) const {
  return ops::LayerNorm(x, context.Use(weight_), context.Use(bias_), eps_);
}

}  // namespace armature
