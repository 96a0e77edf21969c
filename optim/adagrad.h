// AdaGrad: each weight's rate falls with the squares of its gradients so far.
//
//   g <- gradient + weight_decay * w       (decay where ParameterFacts::decay says so)
//   s <- s + g^2
//   w <- w - lr * g / (sqrt(s) + eps)
//
// Reference: Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic
// optimization",
//            2011.
#ifndef ARMATURE_OPTIM_ADAGRAD_H_
#define ARMATURE_OPTIM_ADAGRAD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "armature/optim/update_rule.h"

namespace armature {

struct AdagradOptions {
  double eps = 1e-10;       // above 0 as an f32
  double weight_decay = 0;  // L2, added to the gradient; at least 0
};

// State: "sum".
// Errors: InvalidArgument naming the option.
// Memory: an update reads 12 and writes 8 bytes for each weight.
absl::StatusOr<std::unique_ptr<UpdateRule>> MakeAdagrad(const AdagradOptions& options);

}  // namespace armature

#endif  // ARMATURE_OPTIM_ADAGRAD_H_
