// Progress: how training goes, for the person who watches. A bar that redraws itself on a terminal, a line
// now and then elsewhere:
//
//   step  120/1000 [======>              ]  loss 2.3145  31.2k tokens/s  1m40s left
#ifndef ARMATURE_TOOLS_PROGRESS_H_
#define ARMATURE_TOOLS_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "armature/engine/step_result.h"

namespace armature {

class Progress {
 public:
  // `lines_every`: without a terminal, a line for each so many steps.
  Progress(std::ostream& out, bool is_terminal, int64_t total_steps, int64_t lines_every);

  void Show(const StepResult& step);
  // Leaves the bar's line, so that other output can follow.
  void Finish();

 private:
  std::string Line(const StepResult& step) const;

  std::ostream& out_;
  const bool is_terminal_;
  const int64_t total_steps_;
  const int64_t lines_every_;
  // Averages over the last steps, so that neither one slow step nor the slow start decides.
  double seconds_per_step_ = 0;
  double loss_ = 0;
  bool started_ = false;
  bool bar_shown_ = false;
};

}  // namespace armature

#endif  // ARMATURE_TOOLS_PROGRESS_H_
