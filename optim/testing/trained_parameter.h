// TrainedParameter: the weights and states of one parameter under a rule, in tests.
#ifndef ARMATURE_OPTIM_TESTING_TRAINED_PARAMETER_H_
#define ARMATURE_OPTIM_TESTING_TRAINED_PARAMETER_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "armature/optim/update_rule.h"

namespace armature {

struct TrainedParameter {
  std::vector<float> weight;
  std::vector<std::vector<float>> states;
  ParameterFacts facts;

  TrainedParameter(std::vector<float> initial, const UpdateRule& rule) : weight(std::move(initial)) {
    states.assign(rule.States().size(), std::vector<float>(weight.size()));
  }

  // One update over views that end at `cuts` (ascending) and at the end.
  absl::Status Update(const UpdateRule& rule, const std::vector<float>& gradient, const StepFacts& step,
                      std::vector<int64_t> cuts = {}) {
    cuts.push_back(static_cast<int64_t>(weight.size()));
    std::vector<std::vector<absl::Span<float>>> parts(cuts.size());
    std::vector<UpdateView> views;
    int64_t begin = 0;
    for (size_t i = 0; i < cuts.size(); ++i) {
      const int64_t end = std::max(begin, std::min<int64_t>(cuts[i], static_cast<int64_t>(weight.size())));
      for (std::vector<float>& state : states) {
        parts[i].push_back(absl::MakeSpan(state).subspan(begin, end - begin));
      }
      views.push_back({absl::MakeSpan(weight).subspan(begin, end - begin),
                       absl::MakeConstSpan(gradient).subspan(begin, end - begin), parts[i], facts});
      views.back().facts.offset = begin;
      begin = end;
    }
    return rule.Update(views, step);
  }
};

}  // namespace armature

#endif  // ARMATURE_OPTIM_TESTING_TRAINED_PARAMETER_H_
