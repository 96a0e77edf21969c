#ifndef ARMATURE_LAYERS_MLP_H_
#define ARMATURE_LAYERS_MLP_H_

#include <string>

#include "armature/layers/context.h"
#include "armature/layers/module_builder.h"
#include "armature/layers/parallel/parallel_linear.h"

namespace armature {

struct MlpOptions {
  int64_t hidden = 0;
  int64_t inner = 0;  // 0: 4 * hidden
  Activation activation = Activation::kGeluTanh;
  Initializer init = Initializer::Normal(0.02);
  Initializer projection_init = Initializer::Normal(0.02);  // of the second linear
  std::string up_name = "c_fc";
  std::string down_name = "c_proj";
};

// Two linears with an activation between: down(activation(up(x))). The ranks of the tensor axis share out the
// inner columns.
//
// Parameters:  up [hidden, inner], down [inner, hidden], both with bias
// Shapes:      x [..., hidden], or a slice of the sequence -> x's
// Errors:      InvalidArgument, at build, if the tensor size does not divide inner.
class Mlp {
 public:
  Mlp(ModuleBuilder builder, const MlpOptions& options);
  Tensor operator()(Context& context, const Tensor& x) const { return down_(context, up_(context, x)); }

 private:
  ColumnParallelLinear up_;
  RowParallelLinear down_;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_MLP_H_
