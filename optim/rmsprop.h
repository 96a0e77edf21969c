// RMSProp: the gradient over the root of its running square, with momentum and centring where asked.
//
//   g <- gradient + weight_decay * w               (decay where ParameterFacts::decay says so)
//   s <- alpha * s + (1 - alpha) * g^2
//   a <- alpha * a + (1 - alpha) * g               centred: s - a^2, at least 0, stands for s below
//   b <- momentum * b + g / (sqrt(s) + eps)
//   w <- w - lr * b
//
// Reference: Tieleman and Hinton, "Lecture 6.5: RMSProp", Coursera, 2012; Graves, "Generating sequences with
// recurrent
//            neural networks", 2013 (centred).
#ifndef ARMATURE_OPTIM_RMSPROP_H_
#define ARMATURE_OPTIM_RMSPROP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "armature/optim/update_rule.h"

namespace armature {

struct RmsPropOptions {
  double alpha = 0.99;      // in [0, 1)
  double eps = 1e-8;        // added to the root; above 0 as an f32
  double momentum = 0;      // in [0, 1); 0 keeps no momentum
  double weight_decay = 0;  // L2, added to the gradient; at least 0
  bool centred = false;     // divide by an estimate of the standard deviation
};

// State: "square"; then "mean" if centred; then "momentum" if there is any.
// Errors: InvalidArgument naming the option.
// Memory: an update reads 12 and writes 8 bytes for each weight, and 4 and 4 more for each further state.
absl::StatusOr<std::unique_ptr<UpdateRule>> MakeRmsProp(const RmsPropOptions& options);

}  // namespace armature

#endif  // ARMATURE_OPTIM_RMSPROP_H_
