// Clipping by the global norm: the arithmetic. The norm over the shards of many ranks is optim/shard's.
//
//   const double sum = SumOfSquares(gradients, threads);           // this rank's part
//   const absl::optional<float> factor = ClipFactor(std::sqrt(sum), /*max_norm=*/1.0);
//   if (!factor.has_value()) return Skip("the gradient's norm is not finite");
//   step.gradient_scale *= *factor;                                // the update rule multiplies: no pass
//   over memory
#ifndef ARMATURE_OPTIM_CLIP_H_
#define ARMATURE_OPTIM_CLIP_H_

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "armature/base/thread_team.h"

namespace armature {

// SumOfSquares adds the squares of all elements of `parts`. Products and sums are f64, so that no finite f32
// input overflows; an infinity or NaN among them gives one in the sum.
//
// The same bits for every team: the elements are summed over chunks of fixed length, and the chunks in order.
// Cutting the same elements into other parts may change the last bits of the f64. `threads` may be null: the
// caller alone.
double SumOfSquares(absl::Span<const absl::Span<const float>> parts, ThreadTeam* threads);

// ClipFactor returns min(1, max_norm / (norm + 1e-6)): what gradients of global norm `norm` are multiplied by
// so that their norm is at most max_norm. An infinite max_norm never clips. Returns nothing if the norm is
// not finite: no factor mends such gradients, and the update has to be skipped.
absl::optional<float> ClipFactor(double norm, double max_norm);

}  // namespace armature

#endif  // ARMATURE_OPTIM_CLIP_H_
