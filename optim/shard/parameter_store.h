// ParameterStore: a rank's weights, gradients and optimizer states, in flat buckets. The only ParameterSource
// of training. Data parallelism and ZeRO are one mechanism, at four stages over the ranks that hold the same
// weights:
//
//   stage | weights | gradients | masters and states | bytes a parameter: f32 | bf16, bf16 gradients
//   ------|---------|-----------|--------------------|------------------------|---------------------
//   0     | whole   | whole     | whole              | 16                     | 16
//   1     | whole   | whole     | shard              | 8 + 8/N                | 4 + 12/N
//   2     | whole   | shard     | shard              | 4 + 12/N               | 2 + 14/N
//   3     | shard   | shard     | shard              | 16/N                   | 16/N
//
// for AdamW over N ranks; f32 gradients of bf16 weights take 2 bytes more. f32 weights are their own masters.
//
//   store->BeginStep(microbatches);
//   ...                                       // forward and backward of each microbatch, and after each:
//   ARMATURE_RETURN_IF_ERROR(store->EndMicrobatch());
//   ARMATURE_RETURN_IF_ERROR(store->FinishGradients());
//   const double squares = store->GradientSquares();      // of this rank's share; to be summed over all
//   ARMATURE_RETURN_IF_ERROR(store->Update(*rule, facts));
//
// The first contribution of a step overwrites a parameter's gradient, later ones are added: nothing is ever
// cleared that will be written anyway.
//
// With `shard_ranks` N is that number, and several groups of N ranks hold the same shards (hybrid sharding):
// gathers stay within a group, a node say, and only sums of shards go from one to another.
//
// Reference: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models"
// (2020).
#ifndef ARMATURE_OPTIM_SHARD_PARAMETER_STORE_H_
#define ARMATURE_OPTIM_SHARD_PARAMETER_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "armature/base/thread_team.h"
#include "armature/comm/communicator.h"
#include "armature/optim/shard/bucket_layout.h"
#include "armature/optim/shard/exact_sum.h"
#include "armature/optim/shard/gradient_buckets.h"
#include "armature/optim/shard/weight_buckets.h"
#include "armature/optim/update_rule.h"
#include "armature/tensor/parameter.h"
#include "armature/tensor/sharded_array.h"
#include "armature/tensor/tape.h"

namespace armature {

struct ParameterStoreOptions {
  uint64_t seed = 0;
  // For sums and updates; null: the calling thread alone.
  ThreadTeam* threads = nullptr;
  // The ZeRO stage, 0 to 3.
  int sharding = 0;
  // Over how many of the replicas a stage above 0 shards, consecutive ones. 0: all of them.
  int shard_ranks = 0;
  // Of the weights that layers see, and of the sums of gradients.
  DType dtype = DType::kF32;
  DType gradient_dtype = DType::kF32;
  // See GradientBucketsOptions.
  bool reproducible = false;
  bool overlap = true;
  int64_t bucket_elements = 6553600;
  // The block of each parameter. Empty: all belong to block 0.
  std::vector<int> blocks;
  // The ranks that hold the same weights. Must outlive the store. Null: this rank alone.
  comm::Communicator* replicas = nullptr;
  // The ranks that hold other parts of split parameters, and the same of the others. Must outlive the store.
  // Null: this rank alone.
  comm::Communicator* tensor = nullptr;
};

// Thread-compatible.
class ParameterStore : public ParameterSource {
 public:
  enum class Kind { kWeights, kGradients, kStates };

  // Lays out the buckets and fills the weights with their initial values; states are 0. A collective over the
  // replicas.
  // Errors: ResourceExhausted; InvalidArgument if an option is out of range; those of the communicator.
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Create(Backend& backend,
                                                                const std::vector<ParameterSpec>& specs,
                                                                const UpdateRule& rule,
                                                                const ParameterStoreOptions& options);

  ~ParameterStore() override;

  Tensor Borrow(ParameterId id, Tape* tape) override;
  absl::Status BeginBlock(int block) override;
  void EndBlock(int block) override;
  void Prefetch(int block) override;
  void EndBackward(int block) override { gradients_->EndBackward(block); }
  // Whether any of these does anything.
  bool follows_blocks() const { return options_.replicas->size() > 1 || options_.sharding >= 2; }
  // Lets go of what the last blocks gathered: after a forward that no backward follows.
  void ReleaseBlocks() { weights_->ReleaseAll(); }

  // A step of so many backwards begins on this rank.
  void BeginStep(int microbatches);
  absl::Status EndMicrobatch();
  // Ends all reductions. Parameters without a gradient have 0. Errors: those of GradientBuckets.
  absl::Status FinishGradients();
  // After an error in a step, once the groups have failed: nothing touches memory in the background any more.
  void Abandon();
  // Fails the store's own groups, so that no peer waits for this rank.
  void Abort(const absl::Status& why);
  // Goes on with new groups of the same ranks. A collective over the replicas.
  absl::Status Reconnect(comm::Communicator& replicas, comm::Communicator* tensor);
  // Names of the parameters that this rank's backwards gave no gradient.
  std::vector<std::string> ParametersWithoutGradient() const;

  // The sum of the squares over this rank's share of the gradients: summed over the replicas, each element
  // counts once.
  double GradientSquares() const;
  // The same without a rounding that would depend on the shares.
  double LargestGradient() const;
  ExactSum GradientSquaresExactly(double largest) const;

  // Moves the weights and states, and brings new weights to the replicas. Errors: those of the rule; then
  // nothing was touched. Those of the communicator: then replicas may differ.
  absl::Status Update(const UpdateRule& rule, const StepFacts& facts);
  // After masters were written through Slices.
  absl::Status ShareWeights();

  // This rank's part of the f32 masters, the gradient sums or the states (as "optimizer.<state>.<name>"), in
  // host memory. `once`: a part that several replicas hold is given by one of them only.
  std::vector<ShardedArray> Slices(Kind kind, bool once) const;

  // An error, the same on all ranks, if ranks that should hold the same weights don't: DataLoss naming the
  // first such parameter and two ranks. A collective over the replicas and the tensor ranks.
  absl::Status CheckReplicas() const;
  // The name of the parameter whose gradient's place that is; "" if of none.
  std::string NameOf(const GradientTarget* target) const;

  // Over whole parameters.
  int64_t num_parameters() const { return num_parameters_; }
  const GradientBuckets& gradients() const { return *gradients_; }

 private:
  using Range = BucketLayout::Range;

  bool gathers_blocks() const { return options_.sharding == 3; }
  ParameterStore(Backend& backend, const std::vector<ParameterSpec>& specs, const UpdateRule& rule,
                 const ParameterStoreOptions& options);
  absl::Status Build();
  // Makes shards_ and mirrors_ from the replicas.
  absl::Status SplitReplicas();
  // The order of reductions follows that of the first step's gradients, the same on all ranks.
  absl::Status FollowObservedOrder();
  absl::Status Initialize();
  absl::Status InitializeParameter(int parameter);
  // What of a bucket this rank keeps masters and states of; and what of that is its share.
  Range Owned(int bucket) const;
  Range Share(int bucket) const;
  // Memory of `range`, in f32.
  Tensor Master(int bucket, const Range& range) const;
  Tensor State(int bucket, size_t state, const Range& range) const;
  // In the dtype of the sums; and as f32, a copy unless it is that.
  Tensor GradientOf(int bucket, const Range& range) const;
  Tensor GradientAsF32(int bucket, const Range& range) const;
  // False for what another tensor rank counts, and saves, too.
  bool Counts(int parameter) const;
  // False where another group of shards counts the same.
  bool first_mirror() const { return mirrors_ == nullptr || mirrors_->rank() == 0; }
  absl::Status SumOverShards(const std::vector<int>& parameters, absl::Span<double> sums) const;
  void AppendSlices(absl::string_view prefix, int parameter, const Range& part, const Tensor& memory,
                    std::vector<ShardedArray>& arrays) const;
  absl::Status UpdateBucket(int bucket, const UpdateRule& rule, const StepFacts& facts);
  absl::Status CastMasters(int bucket);
  std::vector<int64_t> Checksums() const;
  absl::Status CompareChecksums(comm::Communicator& ranks, absl::Span<const int64_t> own,
                                bool split_too) const;
  template <typename F>
  void ForEachShare(F f) const;

  Backend& backend_;
  const std::vector<ParameterSpec> specs_;
  const std::vector<StateSpec> state_specs_;
  ParameterStoreOptions options_;
  std::vector<std::unique_ptr<comm::Communicator>> alone_;  // the group of one, if none was given
  // The ranks that buckets are cut over, and those that hold the same shard: null if there is one group.
  comm::Communicator* shards_ = nullptr;
  std::unique_ptr<comm::Communicator> own_shards_, mirrors_;
  int64_t num_parameters_ = 0;
  bool order_is_observed_ = false;
  std::unique_ptr<BucketLayout> layout_;
  std::unique_ptr<WeightBuckets> weights_;
  std::unique_ptr<GradientBuckets> gradients_;
  std::vector<Tensor> masters_;              // by bucket; only if weights are not f32
  std::vector<std::vector<Tensor>> states_;  // by bucket and state
};

}  // namespace armature

#endif  // ARMATURE_OPTIM_SHARD_PARAMETER_STORE_H_
