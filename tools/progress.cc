#include "armature/tools/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace armature {
namespace {

constexpr int kBarWidth = 24;
constexpr double kSmoothing = 0.9;

std::string Bar(double share) {
  const int filled = std::clamp(static_cast<int>(share * kBarWidth), 0, kBarWidth);
  std::string bar(filled, '=');
  if (filled < kBarWidth) absl::StrAppend(&bar, ">", std::string(kBarWidth - filled - 1, ' '));
  return bar;
}

std::string Rate(double per_second) {
  return per_second < 1000 ? absl::StrFormat("%.0f", per_second)
                           : absl::StrFormat("%.1fk", per_second / 1000);
}

}  // namespace

Progress::Progress(std::ostream& out, bool is_terminal, int64_t total_steps, int64_t lines_every)
    : out_(out),
      is_terminal_(is_terminal),
      total_steps_(total_steps),
      lines_every_(std::max<int64_t>(lines_every, 1)) {}

std::string Progress::Line(const StepResult& step) const {
  const absl::Duration left =
      absl::Seconds(seconds_per_step_ * static_cast<double>(total_steps_ - step.step));
  std::string line = absl::StrFormat("step %5d/%d ", step.step, total_steps_);
  if (is_terminal_) {
    const double share =
        static_cast<double>(step.step) / static_cast<double>(std::max<int64_t>(total_steps_, 1));
    absl::StrAppend(&line, "[", Bar(share), "] ");
  }
  absl::StrAppend(&line,
                  absl::StrFormat(" loss %.4f  %s tokens/s  %s left", loss_, Rate(step.tokens_per_second()),
                                  absl::FormatDuration(absl::Trunc(left, absl::Seconds(1)))));
  if (step.skipped) absl::StrAppend(&line, "  (skipped: ", step.skip_reason, ")");
  return line;
}

void Progress::Show(const StepResult& step) {
  const double seconds = absl::ToDoubleSeconds(step.duration);
  const auto average = [this](double mean, double value) {
    return started_ ? kSmoothing * mean + (1 - kSmoothing) * value : value;
  };
  seconds_per_step_ = average(seconds_per_step_, seconds);
  if (!step.skipped) loss_ = average(loss_, step.loss);
  started_ = true;
  if (is_terminal_) {
    out_ << "\r\033[K" << Line(step) << std::flush;
    bar_shown_ = true;
  } else if (step.step % lines_every_ == 0 || step.step == total_steps_ || step.skipped) {
    out_ << Line(step) << std::endl;
  }
}

void Progress::Finish() {
  if (bar_shown_) out_ << std::endl;
  bar_shown_ = false;
}

}  // namespace armature
