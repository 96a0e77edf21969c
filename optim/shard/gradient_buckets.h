// GradientBuckets: where a rank's gradients are summed, over microbatches and over the ranks that hold the
// same weights.
//
//   buckets.BeginStep(microbatches);
//   for (...) {
//     ...                                                 // a backward writes through target(parameter)
//     ARMATURE_RETURN_IF_ERROR(buckets.EndMicrobatch());
//   }
//   ARMATURE_RETURN_IF_ERROR(buckets.Finish());           // now own(bucket) holds the sum over all ranks
//
// A bucket's reduction starts when the last gradient in it is complete, and runs beside the rest of the
// backward. All ranks reduce the buckets in one order: first that of their numbers, then the one in which
// the first step completed them. One that waits for a gradient that never comes is reduced, with zeros in
// its place, when the backward has passed its blocks.
//
//   kind      | kept between microbatches | reduced             | own(bucket)
//   ----------|---------------------------|---------------------|-------------------------------------
//   kWhole    | all of each bucket        | once a step         | the whole sum
//   kScatter  | all of each bucket        | once a step         | this rank's shard of the sum
//   kSharded  | this rank's shard         | in each microbatch  | this rank's shard of the sum
//
// With mirrors, a shard's sum is then summed over the ranks that hold the same shard of other groups.
//
// With `reproducible`, gradients are added in one balanced binary tree over all microbatches of all ranks.
// kWhole and kScatter expect that a rank has consecutive microbatches of the step, kSharded that microbatch m
// of rank r is number m * ranks + r: then every kind and every power of two of ranks gives the same bits.
#ifndef ARMATURE_OPTIM_SHARD_GRADIENT_BUCKETS_H_
#define ARMATURE_OPTIM_SHARD_GRADIENT_BUCKETS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "armature/comm/communicator.h"
#include "armature/optim/shard/bucket_layout.h"
#include "armature/tensor/tape.h"
#include "armature/tensor/tensor.h"

namespace armature {

struct GradientBucketsOptions {
  enum class Kind { kWhole, kScatter, kSharded };
  Kind kind = Kind::kWhole;
  // Of the sums: F32, or BF16 for half the memory and half the traffic.
  DType dtype = DType::kF32;
  // Needs a power of two of microbatches and of ranks.
  bool reproducible = false;
  // False: all reductions wait for the end of the backward.
  bool overlap = true;
  // The ranks that hold the same shard in other groups of `shards`. Not of kWhole. Null: there is one group.
  comm::Communicator* mirrors = nullptr;
  // The parameters of which each tensor rank computes only a part of the gradient, and those ranks. Empty:
  // none.
  std::vector<bool> partial;
  comm::Communicator* tensor = nullptr;
};

// Thread-compatible.
class GradientBuckets {
 public:
  using Options = GradientBucketsOptions;

  // `shards` are the ranks that a bucket is cut over or, of kWhole, that hold the same. It and `layout` must
  // outlive it.
  GradientBuckets(Backend& backend, const BucketLayout& layout, comm::Communicator& shards,
                  const Options& options);
  ~GradientBuckets();

  // Errors: ResourceExhausted.
  absl::Status Allocate();

  GradientTarget* target(int parameter) const;

  // A step of so many backwards begins. What an unfinished step left is abandoned.
  void BeginStep(int microbatches);
  // Errors, here and in Finish: those of the communicator; ResourceExhausted; FailedPrecondition if a
  // parameter got a gradient after its bucket's reduction began, which happens only in a model whose use of
  // parameters changes from step to step: it needs overlap = false.
  absl::Status EndMicrobatch();
  // The backward has passed the block: no gradient of its parameters, or of later blocks', is still to come.
  void EndBackward(int block);
  // Waits for all reductions. Parameters that got no gradient have 0.
  absl::Status Finish();
  // The buckets in the order in which the step's backwards completed them.
  std::vector<int32_t> ObservedOrder() const;
  // Of reductions, from the next step on; the same on all ranks.
  const std::vector<int32_t>& order() const { return order_; }
  void SetOrder(std::vector<int32_t> order) { order_ = std::move(order); }
  // After an error, once the group has failed: waits until no reduction touches memory any more.
  void Abandon();
  // Goes on with new groups of the same ranks.
  void Reconnect(comm::Communicator& shards, comm::Communicator* mirrors, comm::Communicator* tensor);

  // After Finish: the sums of layout.Shard(bucket, rank) or, of kWhole, of the whole bucket.
  Tensor own(int bucket) const;
  // Of the step: whether this rank's backwards gave it a gradient.
  bool has_gradient(int parameter) const;

  // Of the last step: time in which reductions ran, and time of it in which the backward had to wait for
  // them.
  absl::Duration reducing() const { return reducing_; }
  absl::Duration waited() const { return waited_; }

 private:
  class Target;
  struct Bucket {
    Tensor current;            // what backwards write into; all of the bucket
    Tensor sum;                // kSharded: of earlier microbatches
    std::vector<Tensor> tree;  // reproducible: sums of 2^k microbatches, the larger ones first
    int incomplete = 0;        // parameters whose last gradient of this round is still to come
    bool closed = false;       // in this round
    int last_written = 0;      // by which of the step's contributions; 0: none
  };
  // A reduction that is under way.
  struct Reduction {
    int bucket = 0;
    Tensor input, shard;  // kSharded: what it reads and what it writes
    comm::Work work;
    int round = 0;
    bool within_shards = true;  // and not yet over the mirrors
  };

  bool sharded() const { return options_.kind == Options::Kind::kSharded; }
  bool alone() const { return shards_->size() == 1 && options_.mirrors == nullptr; }
  void BeginRound();
  absl::Status EndRound();
  Tensor Place(int parameter);
  void Contributed(int parameter);
  void CloseComplete();
  void Close(int bucket);
  absl::Status FillWithZeros(int parameter);
  absl::Status SumPartial(int parameter);
  void Reduce(int bucket);
  // Adds `value`, of microbatch `round`, to what is there.
  absl::Status Fold(Bucket& bucket, Tensor& value, int round);
  absl::Status AddInto(const Tensor& sum, const Tensor& value) const;
  Tensor SumOf(const Reduction& reduction) const;
  void GoOnToMirrors();
  absl::Status GoOnToMirrors(Reduction& reduction);
  absl::Status FinishOldest();
  void Fail(const absl::Status& why);

  Backend& backend_;
  const BucketLayout& layout_;
  comm::Communicator* shards_;
  Options options_;
  std::vector<Bucket> buckets_;
  std::vector<std::unique_ptr<Target>> targets_;
  std::deque<Reduction> reductions_;
  // A round is what is summed before a reduction: the step, or, where each microbatch stands for itself, one.
  bool round_is_microbatch_ = false;
  int microbatches_ = 1;
  int round_ = 0;
  int backward_ = 0;            // of the step
  std::vector<int32_t> order_;  // of reductions
  size_t next_to_close_ = 0;    // a place in order_
  int contributions_ = 0;
  absl::Duration reducing_, waited_;
  absl::Status status_;
};

}  // namespace armature

#endif  // ARMATURE_OPTIM_SHARD_GRADIENT_BUCKETS_H_
