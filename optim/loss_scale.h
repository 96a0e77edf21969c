// LossScaler: the factor that keeps small f16 gradients from vanishing. The loss is multiplied by scale()
// before the backward, and gradients by its inverse (StepFacts::gradient_scale). A state machine over the
// steps:
//
// | step's gradients      | scale                                   | good steps | the caller |
// |-----------------------|-----------------------------------------|------------|-----------------------------------|
// | all finite            | as before; x growth at the growth_interval-th good one | +1; then 0 | applies the
// update     | | one is not finite     | x backoff                               | 0          | skips the
// update: nothing moves   | | ... and scale at min  | as before, and an error                 | as before  |
// gives up                          |
//
// "Nothing moves": no weight, moment, update count or schedule. All ranks must feed their scalers the same
// answer (the logical or over the ranks), and then agree without any further word.
//
// Reference: Micikevicius et al., "Mixed precision training", 2018.
#ifndef ARMATURE_OPTIM_LOSS_SCALE_H_
#define ARMATURE_OPTIM_LOSS_SCALE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace armature {

struct LossScalerOptions {
  double initial_scale = 65536;    // in [min_scale, max_scale]
  double growth = 2;               // at least 1; 1 never grows
  double backoff = 0.5;            // in (0, 1)
  int64_t growth_interval = 2000;  // good steps in a row before growth; at least 1
  double min_scale = 1;            // above 0: an overflow at this scale is an error, not a loop
  double max_scale = 16777216;     // growth stops here, 2^24: gradients that are all 0 never overflow
};

// Thread-compatible.
class LossScaler {
 public:
  // What a checkpoint keeps.
  struct State {
    double scale = 0;
    int64_t good_steps = 0;  // in a row, since the last change of the scale
  };

  // Errors: InvalidArgument naming the option.
  static absl::StatusOr<LossScaler> Create(const LossScalerOptions& options);

  // What the next step's loss is multiplied by.
  double scale() const { return state_.scale; }

  // Ends a step. `finite`: no gradient of any rank is infinite or NaN.
  // Errors: FailedPrecondition if gradients are not finite at the smallest scale: the loss itself diverged.
  // The state
  //         stays as it was.
  absl::Status EndStep(bool finite);

  const State& state() const { return state_; }

  // Goes on from a checkpoint's state; a scale outside the options' bounds is moved to the nearest.
  // Errors: InvalidArgument if the scale is not a positive number or good_steps is negative; nothing changes.
  absl::Status Restore(const State& state);

 private:
  explicit LossScaler(const LossScalerOptions& options)
      : options_(options), state_{options.initial_scale, 0} {}

  LossScalerOptions options_;
  State state_;
};

}  // namespace armature

#endif  // ARMATURE_OPTIM_LOSS_SCALE_H_
