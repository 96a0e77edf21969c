// ForEachRange: the views of an update, checked, and cut into ranges for the vector loops of lanes-inl.h.
#ifndef ARMATURE_OPTIM_UPDATE_RANGES_H_
#define ARMATURE_OPTIM_UPDATE_RANGES_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "armature/optim/chunks.h"
#include "armature/optim/update_rule.h"

namespace armature {

// No rule keeps more states than this.
constexpr int kMaxStates = 3;

// What a vector loop updates: `count` elements of each array.
struct UpdateRange {
  float* weight = nullptr;
  const float* gradient = nullptr;
  float* state[kMaxStates] = {};
  int64_t count = 0;
  float gradient_scale = 1;
};

// Errors: InvalidArgument as UpdateRule::Update says, naming the view.
absl::Status CheckUpdate(absl::Span<const UpdateView> views, int64_t num_states, const StepFacts& step);

// The chunks of the views: chunk.array is the view's number.
Chunks ChunksOf(absl::Span<const UpdateView> views);

UpdateRange RangeOf(const UpdateView& view, const Chunk& chunk, const StepFacts& step);

// Calls body for ranges that cover all views, on the threads of step.
void ForEachRange(absl::Span<const UpdateView> views, const StepFacts& step,
                  absl::FunctionRef<void(const ParameterFacts& facts, const UpdateRange& range)> body);

}  // namespace armature

#endif  // ARMATURE_OPTIM_UPDATE_RANGES_H_
