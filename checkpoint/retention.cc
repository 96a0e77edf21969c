#include "armature/checkpoint/retention.h"

namespace armature {

std::vector<int64_t> StepsToRemove(absl::Span<const int64_t> steps, int64_t just_written,
                                   const RetentionOptions& options) {
  std::vector<int64_t> removed;
  if (options.keep_last <= 0) return removed;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool is_recent = static_cast<int64_t>(steps.size() - i) <= options.keep_last;
    const bool is_milestone = options.keep_every > 0 && steps[i] % options.keep_every == 0;
    if (!is_recent && !is_milestone && steps[i] != just_written) removed.push_back(steps[i]);
  }
  return removed;
}

}  // namespace armature
