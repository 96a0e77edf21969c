// Retention: which checkpoints are removed after a save.
#ifndef ARMATURE_CHECKPOINT_RETENTION_H_
#define ARMATURE_CHECKPOINT_RETENTION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace armature {

struct RetentionOptions {
  // The newest ones that stay. 0 keeps all.
  int64_t keep_last = 3;
  // Multiples of this step stay too, however old. 0: none does.
  int64_t keep_every = 0;
};

// Those of `steps` (ascending) to remove. `just_written`, which was read back whole, always stays; so a
// checkpoint that verifies is left even if all the others are damaged.
std::vector<int64_t> StepsToRemove(absl::Span<const int64_t> steps, int64_t just_written,
                                   const RetentionOptions& options);

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_RETENTION_H_
