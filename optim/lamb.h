// LAMB: Adam's step, scaled for each parameter to the size of its weights, for large batches. At update t,
// from 1:
//
//   m <- beta1 * m + (1 - beta1) * g
//   v <- beta2 * v + (1 - beta2) * g^2
//   r <- (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * w
//   w <- w - lr * (|w| / |r|) * r
//
// |.| is the 2-norm over the whole parameter, whatever views and ranks hold its parts; where either norm is 0
// the ratio is 1. Decay goes only where ParameterFacts::decay says so; the ratio is taken for all parameters.
//
// Reference: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020.
#ifndef ARMATURE_OPTIM_LAMB_H_
#define ARMATURE_OPTIM_LAMB_H_

#include <memory>

#include "absl/status/statusor.h"
#include "armature/optim/update_rule.h"

namespace armature {

struct LambOptions {
  double beta1 = 0.9;          // in [0, 1)
  double beta2 = 0.999;        // in [0, 1)
  double eps = 1e-6;           // above 0 as an f32
  double weight_decay = 0.01;  // inside the ratio; at least 0
};

// State: "m", "v".
// Errors: InvalidArgument naming the option. Update: also InvalidArgument if a parameter's number is negative
// or, with
//         sum_over_shards, not below num_parameters.
// Memory: two passes: an update reads 28 and writes 12 bytes for each weight.
// Communication: one sum_over_shards of 2 * num_parameters.
absl::StatusOr<std::unique_ptr<UpdateRule>> MakeLamb(const LambOptions& options);

}  // namespace armature

#endif  // ARMATURE_OPTIM_LAMB_H_
