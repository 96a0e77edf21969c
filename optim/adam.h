// Adam and AdamW, each with its AMSGrad variant. At update t, from 1:
//
//   g <- gradient + weight_decay * w     Adam: L2, part of the gradient
//   w <- w - lr * weight_decay * w       AdamW: decoupled, before the step
//   m <- beta1 * m + (1 - beta1) * g
//   v <- beta2 * v + (1 - beta2) * g^2
//   w <- w - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
//
// AMSGrad puts v_max <- max(v_max, v), the raw ones, in the place of v in the last line. eps is added to the
// corrected root. Decay goes only where ParameterFacts::decay says so.
//
// Reference: Kingma and Ba, "Adam: a method for stochastic optimization", 2015; Loshchilov and Hutter,
// "Decoupled weight
//            decay regularization", 2019; Reddi et al., "On the convergence of Adam and beyond", 2018.
#ifndef ARMATURE_OPTIM_ADAM_H_
#define ARMATURE_OPTIM_ADAM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "armature/optim/update_rule.h"

namespace armature {

struct AdamOptions {
  double beta1 = 0.9;       // in [0, 1)
  double beta2 = 0.999;     // in [0, 1)
  double eps = 1e-8;        // above 0 as an f32
  double weight_decay = 0;  // L2; at least 0
  bool amsgrad = false;     // a third state
};

struct AdamWOptions {
  double beta1 = 0.9;          // in [0, 1); language models often take 0.9 and 0.95
  double beta2 = 0.999;        // in [0, 1)
  double eps = 1e-8;           // above 0 as an f32
  double weight_decay = 0.01;  // decoupled; at least 0
  bool amsgrad = false;        // a third state
};

// State: "m", "v", with AMSGrad also "v_max".
// Errors: InvalidArgument naming the option.
// Memory: one pass: an update reads 16 and writes 12 bytes for each weight; with AMSGrad 20 and 16.
absl::StatusOr<std::unique_ptr<UpdateRule>> MakeAdam(const AdamOptions& options);
absl::StatusOr<std::unique_ptr<UpdateRule>> MakeAdamW(const AdamWOptions& options);

}  // namespace armature

#endif  // ARMATURE_OPTIM_ADAM_H_
