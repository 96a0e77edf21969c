// Stochastic gradient descent with momentum.
//
//   g <- gradient + weight_decay * w                      (decay where ParameterFacts::decay says so)
//   b <- momentum * b + (1 - dampening) * g               (b <- g at the first update)
//   w <- w - lr * b                                       nesterov: w - lr * (g + momentum * b)
//
// Reference: Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013; the
// learning
//            rate stands outside the momentum, as in PyTorch.
#ifndef ARMATURE_OPTIM_SGD_H_
#define ARMATURE_OPTIM_SGD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "armature/optim/update_rule.h"

namespace armature {

struct SgdOptions {
  double momentum = 0;      // in [0, 1); 0 keeps no state
  double dampening = 0;     // in [0, 1)
  double weight_decay = 0;  // L2, added to the gradient; at least 0
  bool nesterov = false;    // needs momentum, and no dampening
};

// State: "momentum", if there is any.
// Errors: InvalidArgument naming the option.
// Memory: an update reads 8 and writes 4 bytes for each weight; with momentum 12 and 8.
absl::StatusOr<std::unique_ptr<UpdateRule>> MakeSgd(const SgdOptions& options);

}  // namespace armature

#endif  // ARMATURE_OPTIM_SGD_H_
