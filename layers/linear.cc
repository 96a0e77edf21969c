#include "armature/layers/linear.h"

#include "armature/tensor/ops/linear.h"

namespace armature {

Linear::Linear(ModuleBuilder builder, const LinearOptions& options)
    : activation_(options.activation), has_bias_(options.bias) {
  const Sharding sharding = options.on_slices ? builder.WholeOnSlices() : Sharding();
  weight_ = builder.Parameter("weight", {options.in, options.out}, options.init, sharding);
  if (has_bias_) bias_ = builder.Parameter("bias", {options.out}, Initializer::Constant(0), sharding);
}

Tensor Linear::operator()(Context& context, const Tensor& x) const {
  ops::LinearOptions options;
  options.activation = activation_;
  return ops::Linear(x, context.Use(weight_), has_bias_ ? context.Use(bias_) : Tensor(), options);
}

}  // namespace armature
