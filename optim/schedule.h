// Schedule: the learning rate of each update, a pure function of the update's number, so that resuming needs
// no state.
//
//   ScheduleOptions options;
//   options.decay = ScheduleOptions::Decay::kCosine;
//   options.peak = 3e-4;
//   options.warmup_updates = 2000;
//   options.total_updates = 100000;
//   ARMATURE_ASSIGN_OR_RETURN(Schedule schedule, Schedule::Create(options));
//   step.learning_rate = schedule.LearningRate(k);   // k = 1, 2, 3, ...; an update that was skipped takes no
//   number
//
//   peak |       ________________             warm-up: update k of W uses k/W of the peak
//        |     /.                .`
//        |   /  .                . `         decay to min at update T, where it stays
//    min | /    .                .  `_____
//        +------+----------------+--+------> k
//        1      W             T - D T        D: decay_updates, or T - W for kLinear and kCosine
#ifndef ARMATURE_OPTIM_SCHEDULE_H_
#define ARMATURE_OPTIM_SCHEDULE_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace armature {

struct ScheduleOptions {
  // What follows the warm-up. With s = max(W, 1), the update that reaches the peak:
  enum class Decay {
    kConstant,           // peak
    kLinear,             // peak to min, in a straight line from update s to T
    kCosine,             // peak to min, half a cosine from s to T (Loshchilov and Hutter, 2017)
    kInverseSquareRoot,  // peak * sqrt(s / k), not below min (Vaswani et al., 2017)
    kWarmupStableDecay,  // peak until T - D, then a straight line to min at T (Hu et al., 2024)
  };
  Decay decay = Decay::kConstant;

  double peak = 1e-3;  // above 0
  double min = 0;      // in [0, peak]; unused by kConstant

  // W. The first update uses peak / W, never 0; with 0 or 1 the first update is at the peak.
  int64_t warmup_updates = 0;

  // T: from this update on the rate is min. At least warmup_updates; a decay of length 0 drops to min right
  // after the warm-up. Unused by kConstant and kInverseSquareRoot, which have no end.
  int64_t total_updates = 0;

  // D, of kWarmupStableDecay only: in [0, total_updates - warmup_updates].
  int64_t decay_updates = 0;
};

// Thread-safe; cheap to copy.
class Schedule {
 public:
  // Errors: InvalidArgument naming the option.
  static absl::StatusOr<Schedule> Create(const ScheduleOptions& options);

  // Of update `k`, from 1; a smaller k counts as 1. Always finite and at least 0.
  double LearningRate(int64_t k) const;

 private:
  explicit Schedule(const ScheduleOptions& options) : options_(options) {}

  ScheduleOptions options_;
};

}  // namespace armature

#endif  // ARMATURE_OPTIM_SCHEDULE_H_
