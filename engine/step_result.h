// What a step, an evaluation and a run return, and what metric sinks get.
#ifndef ARMATURE_ENGINE_STEP_RESULT_H_
#define ARMATURE_ENGINE_STEP_RESULT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace armature {

struct StepResult {
  int64_t step = 0;                                    // the number of this step, from 1; skipped ones count
  int64_t updates = 0;                                 // weight updates so far; skipped steps don't count
  double loss = 0;                                     // the sum of the terms
  std::vector<std::pair<std::string, double>> losses;  // each term, by its name
  double grad_norm = 0;                                // global, before clipping
  double learning_rate = 0;                            // of this update
  double loss_scale = 1;                               // that the gradients of this step were multiplied by
  int64_t tokens = 0;                                  // entries counted by the first loss term
  absl::Duration duration;
  absl::Duration forward, backward, update;  // of `duration`, on the rank that took longest
  // How long the gradients' reductions between ranks ran, and how much of that the backward waited for: the
  // rest was hidden behind it.
  absl::Duration reducing, reducing_waited;
  bool skipped = false;  // nothing moved; skip_reason says why
  std::string skip_reason;
  // The first operation whose output or gradient was not finite, if the config's detect_anomaly asks for it.
  std::string anomaly;

  double tokens_per_second() const { return tokens / absl::ToDoubleSeconds(duration); }
};

struct EvalResult {
  double loss = 0;
  std::vector<std::pair<std::string, double>> losses;
  int64_t tokens = 0;  // entries counted by the first loss term
  int64_t batches = 0;
};

struct RunResult {
  enum class End {
    kSourceEnded,    // the source has no more batches
    kMaxSteps,       // RunOptions.max_steps are done
    kStopRequested,  // RequestStop was called
  };
  End end = End::kSourceEnded;
  int64_t steps = 0;  // done by this run
  StepResult last;    // of the last step, if steps > 0
};

// Where an engine reports each step. The host may bring its own. Called on the thread that called the engine.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  // An error ends Run, and comes out of it. After Step it is ignored: the step is done all the same.
  virtual absl::Status Report(const StepResult& step) = 0;
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_STEP_RESULT_H_
