// Lion: the sign of a momentum. One state, half of Adam's.
//
//   w <- w - lr * weight_decay * w        decoupled, where ParameterFacts::decay says so
//   w <- w - lr * sign(beta1 * m + (1 - beta1) * g)
//   m <- beta2 * m + (1 - beta2) * g
//
// The sign of 0 is 0. Learning rates are some three to ten times smaller, and decays larger, than AdamW's.
//
// Reference: Chen et al., "Symbolic discovery of optimization algorithms", 2023.
#ifndef ARMATURE_OPTIM_LION_H_
#define ARMATURE_OPTIM_LION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "armature/optim/update_rule.h"

namespace armature {

struct LionOptions {
  double beta1 = 0.9;       // in [0, 1)
  double beta2 = 0.99;      // in [0, 1)
  double weight_decay = 0;  // decoupled; at least 0
};

// State: "m".
// Errors: InvalidArgument naming the option.
// Memory: an update reads 12 and writes 8 bytes for each weight.
absl::StatusOr<std::unique_ptr<UpdateRule>> MakeLion(const LionOptions& options);

}  // namespace armature

#endif  // ARMATURE_OPTIM_LION_H_
