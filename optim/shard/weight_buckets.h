// WeightBuckets: the weights that layers compute with, in flat buckets of one dtype.
//
// kWhole: every rank holds all of each bucket.
//
// kSharded: a rank holds its shard of each bucket, and the rest only while a block needs it. Between
// BeginBlock(b) and EndBlock(b), in the forward as in the backward, b's buckets are there; Prefetch starts to
// gather those of a later block, beside the computation. A tensor that a function has saved stays valid as a
// handle: the bucket's memory goes and comes back under it.
//
//   bytes received a step, of S bytes of weights and P ranks: 2 S (P-1)/P, once forward and once backward
//
// Reference: Rajbhandari et al., "ZeRO" (2020), section 7.2.2; Zhao et al., "PyTorch FSDP" (2023).
#ifndef ARMATURE_OPTIM_SHARD_WEIGHT_BUCKETS_H_
#define ARMATURE_OPTIM_SHARD_WEIGHT_BUCKETS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "armature/comm/communicator.h"
#include "armature/optim/shard/bucket_layout.h"
#include "armature/tensor/tensor.h"

namespace armature {

// Thread-compatible.
class WeightBuckets {
 public:
  enum class Kind { kWhole, kSharded };

  // `shards` are the ranks that a bucket is cut over. It and `layout` must outlive it.
  WeightBuckets(Backend& backend, const BucketLayout& layout, comm::Communicator& shards, Kind kind,
                DType dtype);
  ~WeightBuckets();

  // A collective, if sharded: gathers run on a group of their own, beside the reductions.
  // Errors: ResourceExhausted; those of the communicator.
  absl::Status Allocate();

  // A parameter's weights, one dimension. Errors ride in the tensor.
  Tensor Borrow(int parameter);

  // Goes on with a new group of the same ranks. A collective, if sharded.
  absl::Status Reconnect(comm::Communicator& shards);
  // Fails the group of gathers, so that no peer waits for this rank.
  void Abort(const absl::Status& why);

  // Nothing to do unless sharded. Errors: those of the communicator; ResourceExhausted.
  absl::Status BeginBlock(int block);
  void EndBlock(int block);
  void Prefetch(int block);
  // Lets go of all that is gathered: after a step, or when one has failed. Waits for gathers under way.
  void ReleaseAll();

  // This rank's memory of `range` of a bucket, which must lie in its shard if sharded.
  Tensor own(int bucket, const BucketLayout::Range& range) const;

  // kWhole: starts to bring every rank's shard to all. FinishSharing waits.
  void Share(int bucket);
  absl::Status FinishSharing();

 private:
  struct Bucket {
    Tensor whole;
    Tensor shard;     // kSharded
    int holders = 0;  // blocks between Begin and End
    bool present = false;
    comm::Work gather;  // of `whole`
  };
  bool sharded() const { return kind_ == Kind::kSharded; }
  void Acquire(int bucket);
  void Release(int bucket);
  void Gather(Bucket& bucket);
  void LetGoOfEnded();

  Backend& backend_;
  const BucketLayout& layout_;
  comm::Communicator* shards_;
  const Kind kind_;
  const DType dtype_;
  std::unique_ptr<comm::Communicator> gatherers_;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<int>> needs_;  // of each block: its own buckets, and those of weights it shares
  std::vector<int> held_;                // by the running block
  std::vector<int> ended_;               // by the block before: let go when the next one begins
  int block_ = -1;
  std::vector<comm::Work> sharing_;
  absl::Status status_;
};

}  // namespace armature

#endif  // ARMATURE_OPTIM_SHARD_WEIGHT_BUCKETS_H_
