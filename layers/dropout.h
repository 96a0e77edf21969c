#ifndef ARMATURE_LAYERS_DROPOUT_H_
#define ARMATURE_LAYERS_DROPOUT_H_

#include "armature/layers/context.h"
#include "armature/layers/module_builder.h"

namespace armature {

// Drops elements with probability p in training, scaling the others by 1 / (1 - p); the identity otherwise.
// Masks do not depend on the layout of ranks or microbatches.
//
// Shapes:  x [samples, positions, ..., n], with sequence parallelism a slice of the positions, or [samples,
// n],
//          the same on every rank of the tensor axis -> x's
// Errors:  InvalidArgument if x has fewer than two dimensions; those of ops::Dropout.
// Reference: Srivastava et al., "Dropout" (2014).
class Dropout {
 public:
  Dropout(ModuleBuilder builder, double p) : p_(p), layer_(builder.NextLayer()) {}

  Tensor operator()(Context& context, const Tensor& x) const { return AddTo(context, Tensor(), x); }
  // residual + dropout(x), in one pass over memory. An invalid residual counts as 0.
  Tensor AddTo(Context& context, const Tensor& residual, const Tensor& x) const;

 private:
  double p_;
  int64_t layer_;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_DROPOUT_H_
