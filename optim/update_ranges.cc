#include "armature/optim/update_ranges.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"

namespace armature {

absl::Status CheckUpdate(absl::Span<const UpdateView> views, int64_t num_states, const StepFacts& step) {
  if (step.count < 1) {
    return absl::InvalidArgumentError(absl::StrCat("updates count from 1, but this is number ", step.count));
  }
  if (!std::isfinite(step.learning_rate) || step.learning_rate < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the learning rate is ", step.learning_rate, ", but must be finite and at least 0"));
  }
  if (!std::isfinite(step.gradient_scale)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the gradient scale is ", step.gradient_scale, ", but must be finite"));
  }
  for (size_t i = 0; i < views.size(); ++i) {
    const UpdateView& view = views[i];
    if (static_cast<int64_t>(view.state.size()) != num_states) {
      return absl::InvalidArgumentError(absl::StrCat("view ", i, " of parameter ", view.facts.parameter,
                                                     " has ", view.state.size(), " states, not ",
                                                     num_states));
    }
    const size_t length = view.weight.size();
    const bool same_length =
        view.gradient.size() == length &&
        std::all_of(view.state.begin(), view.state.end(),
                    [&](absl::Span<const float> state) { return state.size() == length; });
    if (!same_length) {
      return absl::InvalidArgumentError(
          absl::StrCat("view ", i, " of parameter ", view.facts.parameter, " has ", length,
                       " weights, but another number of gradients (", view.gradient.size(), ") or states"));
    }
  }
  return absl::OkStatus();
}

Chunks ChunksOf(absl::Span<const UpdateView> views) {
  std::vector<int64_t> lengths;
  lengths.reserve(views.size());
  for (const UpdateView& view : views) lengths.push_back(static_cast<int64_t>(view.weight.size()));
  return Chunks(lengths);
}

UpdateRange RangeOf(const UpdateView& view, const Chunk& chunk, const StepFacts& step) {
  UpdateRange range;
  range.weight = view.weight.data() + chunk.begin;
  range.gradient = view.gradient.data() + chunk.begin;
  for (size_t i = 0; i < view.state.size(); ++i) range.state[i] = view.state[i].data() + chunk.begin;
  range.count = chunk.end - chunk.begin;
  range.gradient_scale = static_cast<float>(step.gradient_scale);
  return range;
}

void ForEachRange(absl::Span<const UpdateView> views, const StepFacts& step,
                  absl::FunctionRef<void(const ParameterFacts&, const UpdateRange&)> body) {
  ChunksOf(views).ForEach(step.threads, [&](const Chunk& chunk) {
    const UpdateView& view = views[chunk.array];
    body(view.facts, RangeOf(view, chunk, step));
  });
}

}  // namespace armature
