// UpdateRule: how weights follow from gradients, as arithmetic on spans of memory. A rule knows no ranks,
// tensors or buckets: a whole flat bucket, one ZeRO shard and a single parameter are all lists of views.
//
//   ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateRule> rule, MakeAdamW(AdamWOptions()));
//   std::vector<float> m(n), v(n);                                   // one of States() each, all zero
//   absl::Span<float> state[] = {absl::MakeSpan(m), absl::MakeSpan(v)};
//   UpdateView view{absl::MakeSpan(weight), gradient, state, {}};
//   StepFacts step;
//   step.count = k;                                                  // 1, 2, 3, ...
//   step.learning_rate = schedule.LearningRate(k);
//   ARMATURE_RETURN_IF_ERROR(rule->Update(absl::MakeSpan(&view, 1), step));
//
// The rules: sgd.h, adam.h (Adam, AdamW, AMSGrad), adagrad.h, rmsprop.h, lamb.h, lion.h.
#ifndef ARMATURE_OPTIM_UPDATE_RULE_H_
#define ARMATURE_OPTIM_UPDATE_RULE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "armature/base/thread_team.h"
#include "armature/tensor/shape.h"

namespace armature {

// What a rule keeps for each weight between updates: one f32, zero before the first update.
struct StateSpec {
  std::string name;  // as in the paper ("m", "v"); with the parameter's name the key in a checkpoint
};

// Weight decay goes to matrices and to what has more dimensions, not to biases and norms: a matter of rank,
// never of the name.
inline bool DecaysByDefault(const Shape& global_shape) { return global_shape.rank() >= 2; }

// What a view's elements are part of.
struct ParameterFacts {
  // Views with equal numbers are parts of one parameter, on this rank and on others. From 0, and dense:
  // LAMB's buffers have an entry for each number.
  int64_t parameter = 0;
  Shape global_shape;
  bool decay = true;
  // Of the view's first element in the whole parameter, in elements.
  int64_t offset = 0;
};

// A contiguous part of one parameter. All spans have the same length; views of one Update do not overlap.
struct UpdateView {
  absl::Span<float> weight;                   // the f32 master
  absl::Span<const float> gradient;           // averaged; StepFacts::gradient_scale still to be multiplied
  absl::Span<const absl::Span<float>> state;  // one for each of States(), in that order
  ParameterFacts facts;
};

struct StepFacts {
  // The number of this update, from 1. Skipped updates do not count.
  int64_t count = 1;
  double learning_rate = 0;
  // Multiplies each gradient as it is read: the clip factor times the inverse of the loss scale. So neither
  // clipping nor unscaling costs a pass over memory. Must be finite.
  double gradient_scale = 1;
  // Null: the calling thread alone. The team changes no bit of the result.
  ThreadTeam* threads = nullptr;
  // Sums each element over the ranks that share the parameters; every rank calls it equally often, with spans
  // of equal length. Only rules that need a norm over a whole parameter (LAMB) call it, once per update, even
  // with no view. Null: the views hold their parameters whole.
  std::function<absl::Status(absl::Span<double>)> sum_over_shards;
  // How many parameters there are over all the ranks of sum_over_shards. Read only with that hook.
  int64_t num_parameters = 0;
};

// Immutable once made: any thread may call it, with other views each.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  virtual std::vector<StateSpec> States() const = 0;

  // Applies update number step.count to weights and states. How the elements are cut into views, and the
  // team, change no bit, except that LAMB's norms may round differently for other cuts.
  //
  // Errors: InvalidArgument if a view's spans differ in length or in number from States(), or step is out of
  // range;
  //         then nothing was touched. An error of sum_over_shards is passed on; then the states may have
  //         moved.
  // Memory: no pass over memory but the rule's own; allocates a few words for each view, LAMB also for each
  // chunk.
  virtual absl::Status Update(absl::Span<const UpdateView> views, const StepFacts& step) const = 0;
};

}  // namespace armature

#endif  // ARMATURE_OPTIM_UPDATE_RULE_H_
