// ParameterStore: a rank's weights, gradients and optimizer state, in flat buckets. The only ParameterSource
// of training.
//
//   ARMATURE_ASSIGN_OR_RETURN(auto store, ParameterStore::Create(backend, registry.specs(), *rule, options));
//   store->BeginStep();
//   ...                                             // forward and backward of each microbatch: layers borrow
//   weights ARMATURE_RETURN_IF_ERROR(store->FinishGradients()); ARMATURE_RETURN_IF_ERROR(store->Update(*rule,
//   facts));
//
// The first contribution of a step overwrites a parameter's gradient, later ones are added: nothing is ever
// cleared that will be written anyway.
//
// Memory: 4 bytes a parameter each for weights, gradients and each of the rule's states.
#ifndef ARMATURE_OPTIM_SHARD_PARAMETER_STORE_H_
#define ARMATURE_OPTIM_SHARD_PARAMETER_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "armature/base/thread_team.h"
#include "armature/optim/update_rule.h"
#include "armature/tensor/named_buffer.h"
#include "armature/tensor/parameter.h"
#include "armature/tensor/tape.h"

namespace armature {

struct ParameterStoreOptions {
  uint64_t seed = 0;
  // For sums and updates; null: the calling thread alone.
  ThreadTeam* threads = nullptr;
};

// Thread-compatible.
class ParameterStore : public ParameterSource {
 public:
  // Lays out the buckets and fills the weights with their initial values; states are 0.
  // Errors: ResourceExhausted; Unimplemented on a device other than the CPU.
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Create(Backend& backend,
                                                                const std::vector<ParameterSpec>& specs,
                                                                const UpdateRule& rule,
                                                                const ParameterStoreOptions& options);

  ~ParameterStore() override;

  Tensor Borrow(ParameterId id, Tape* tape) override;

  // The next contribution to each gradient overwrites it.
  void BeginStep();
  // Sets the gradients of parameters that got none since BeginStep to 0. Call before reading any.
  absl::Status FinishGradients();
  // Names of the parameters that got no gradient since BeginStep.
  std::vector<std::string> ParametersWithoutGradient() const;
  // The sum of the squares of all gradients.
  double GradientSquares() const;

  // Moves the weights and states. Errors: those of the rule; then nothing was touched.
  absl::Status Update(const UpdateRule& rule, const StepFacts& facts);

  // By the parameter's name, in the order of declaration.
  std::vector<NamedBuffer> Weights() const;
  std::vector<NamedBuffer> Gradients() const;
  // By "optimizer.<state>.<parameter>".
  std::vector<NamedBuffer> States() const;

  int64_t num_parameters() const { return num_parameters_; }

 private:
  class Target;

  ParameterStore(Backend& backend, const std::vector<ParameterSpec>& specs, const UpdateRule& rule,
                 const ParameterStoreOptions& options);
  absl::Status Allocate();
  // The part of a flat bucket that is parameter `index`, in its shape.
  Tensor View(const Tensor& bucket, size_t index) const;
  std::vector<NamedBuffer> Parts(const Tensor& bucket, absl::string_view prefix) const;
  absl::Span<float> SpanOf(const Tensor& bucket, size_t index) const;

  Backend& backend_;
  const std::vector<ParameterSpec> specs_;
  const std::vector<StateSpec> state_specs_;
  const ParameterStoreOptions options_;
  std::vector<int64_t> offsets_;  // of each parameter in a bucket, in elements
  int64_t bucket_elements_ = 0;
  int64_t num_parameters_ = 0;
  Tensor weights_, gradients_;
  std::vector<Tensor> states_;
  std::vector<std::unique_ptr<Target>> targets_;
};

}  // namespace armature

#endif  // ARMATURE_OPTIM_SHARD_PARAMETER_STORE_H_
