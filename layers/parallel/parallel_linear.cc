#include "armature/layers/parallel/parallel_linear.h"

#include <utility>

#include "armature/layers/parallel/collectives.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/ops/linear.h"

namespace armature {

ColumnParallelLinear::ColumnParallelLinear(ModuleBuilder builder, const LinearOptions& options,
                                           std::vector<int64_t> sections)
    : activation_(options.activation), has_bias_(options.bias) {
  weight_ = builder.Parameter("weight", {options.in, options.out}, options.init, builder.Split(1, sections));
  if (has_bias_) {
    bias_ = builder.Parameter("bias", {options.out}, Initializer::Constant(0),
                              builder.Split(0, std::move(sections)));
  }
}

Tensor ColumnParallelLinear::operator()(Context& context, const Tensor& x) const {
  return Inside(context, EnterRegion(context.tensor(), x));
}

Tensor ColumnParallelLinear::Inside(Context& context, const Tensor& x) const {
  ops::LinearOptions options;
  options.activation = activation_;
  return ops::Linear(x, context.Use(weight_), has_bias_ ? context.Use(bias_) : Tensor(), options);
}

RowParallelLinear::RowParallelLinear(ModuleBuilder builder, const LinearOptions& options)
    : has_bias_(options.bias) {
  if (options.activation != Activation::kNone)
    builder.Fail(
        absl::InvalidArgumentError("a row-parallel linear has no activation: its sum is not whole yet"));
  weight_ = builder.Parameter("weight", {options.in, options.out}, options.init, builder.Split(0));
  if (has_bias_)
    bias_ = builder.Parameter("bias", {options.out}, Initializer::Constant(0), builder.WholeOnSlices());
}

Tensor RowParallelLinear::operator()(Context& context, const Tensor& x) const {
  const Tensor bias = has_bias_ ? context.Use(bias_) : Tensor();
  if (context.tensor().size() == 1) return ops::Linear(x, context.Use(weight_), bias);
  const Tensor sum = LeaveRegion(context.tensor(), ops::Linear(x, context.Use(weight_), Tensor()));
  return has_bias_ ? ops::AddBroadcast(sum, bias) : sum;
}

}  // namespace armature
