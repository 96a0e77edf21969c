#include "armature/optim/shard/weight_buckets.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"

namespace armature {

WeightBuckets::WeightBuckets(Backend& backend, const BucketLayout& layout, comm::Communicator& shards,
                             Kind kind, DType dtype)
    : backend_(backend),
      layout_(layout),
      shards_(&shards),
      kind_(kind),
      dtype_(dtype),
      buckets_(layout.buckets().size()) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const size_t block = layout.buckets()[b].block;
    if (needs_.size() <= block) needs_.resize(block + 1);
    needs_[block].push_back(static_cast<int>(b));
  }
}

WeightBuckets::~WeightBuckets() { ReleaseAll(); }

absl::Status WeightBuckets::Allocate() {
  if (sharded()) {
    ARMATURE_ASSIGN_OR_RETURN(gatherers_, shards_->Split(0, shards_->rank(), "weights"));
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const BucketLayout::Bucket& bucket = layout_.buckets()[b];
    Tensor& kept = sharded() ? buckets_[b].shard : buckets_[b].whole;
    kept = Tensor::Empty(backend_, Shape{sharded() ? bucket.shard_elements : bucket.elements}, dtype_,
                         MemoryCategory::kParameters);
    ARMATURE_RETURN_IF_ERROR(kept.status(), "weights");
    if (!sharded()) continue;
    buckets_[b].whole =
        Tensor::Empty(backend_, Shape{bucket.elements}, dtype_, MemoryCategory::kCommunication);
    ARMATURE_RETURN_IF_ERROR(buckets_[b].whole.status(), "room to gather weights");
    buckets_[b].whole.EvictStorage();
  }
  return absl::OkStatus();
}

absl::Status WeightBuckets::Reconnect(comm::Communicator& shards) {
  shards_ = &shards;
  if (!sharded()) return absl::OkStatus();
  ARMATURE_ASSIGN_OR_RETURN(gatherers_, shards_->Split(0, shards_->rank(), "weights"));
  return absl::OkStatus();
}

void WeightBuckets::Abort(const absl::Status& why) {
  if (gatherers_ != nullptr) gatherers_->Abort(why);
}

Tensor WeightBuckets::Borrow(int parameter) {
  const BucketLayout::Place& place = layout_.place(parameter);
  Bucket& bucket = buckets_[place.bucket];
  if (sharded()) {
    if (block_ < 0) {
      return Tensor::Failed(
          absl::InternalError(absl::StrCat("parameter ", parameter, " is borrowed outside of a block")));
    }
    if (std::find(held_.begin(), held_.end(), place.bucket) == held_.end()) {
      // Another block's weight, which this one shares.
      needs_[block_].push_back(place.bucket);
      Acquire(place.bucket);
    }
    if (status_.ok()) status_ = AddContext(bucket.gather.Wait(), "gathering the weights of block ", block_);
    if (!status_.ok()) return Tensor::Failed(status_);
  }
  return bucket.whole.Slice(place.begin, place.end());
}

absl::Status WeightBuckets::BeginBlock(int block) {
  if (!sharded()) return absl::OkStatus();
  if (block_ >= 0) EndBlock(block_);
  block_ = block;
  if (needs_.size() <= static_cast<size_t>(block)) needs_.resize(block + 1);
  for (int bucket : needs_[block]) Acquire(bucket);
  LetGoOfEnded();
  for (int bucket : held_) {
    if (status_.ok()) status_ = buckets_[bucket].gather.Wait();
  }
  return AddContext(status_, "gathering the weights of block ", block);
}

void WeightBuckets::EndBlock(int block) {
  if (!sharded() || block != block_) return;
  LetGoOfEnded();
  ended_ = std::move(held_);
  held_.clear();
  block_ = -1;
}

void WeightBuckets::Prefetch(int block) {
  if (!sharded() || block < 0 || static_cast<size_t>(block) >= needs_.size()) return;
  for (int bucket : needs_[block]) Gather(buckets_[bucket]);
}

void WeightBuckets::LetGoOfEnded() {
  for (int bucket : ended_) Release(bucket);
  ended_.clear();
}

void WeightBuckets::Acquire(int number) {
  Gather(buckets_[number]);
  ++buckets_[number].holders;
  held_.push_back(number);
}

void WeightBuckets::Release(int number) {
  Bucket& bucket = buckets_[number];
  if (--bucket.holders > 0) return;
  if (bucket.present) bucket.whole.EvictStorage();
  bucket.present = false;
}

void WeightBuckets::Gather(Bucket& bucket) {
  if (bucket.present || !status_.ok()) return;
  status_ = AddContext(bucket.whole.ReacquireStorage(), "gathering weights");
  if (!status_.ok()) return;
  bucket.present = true;
  bucket.gather = gatherers_->AllGather(bucket.shard.view(), bucket.whole.view());
  bucket.gather.Start();
}

void WeightBuckets::ReleaseAll() {
  for (comm::Work& work : sharing_) work.Wait().IgnoreError();
  sharing_.clear();
  if (!sharded()) return;
  for (Bucket& bucket : buckets_) {
    bucket.gather.Wait().IgnoreError();
    bucket.gather = comm::Work();
    if (bucket.present) bucket.whole.EvictStorage();
    bucket.present = false;
    bucket.holders = 0;
  }
  held_.clear();
  ended_.clear();
  block_ = -1;
  status_ = absl::OkStatus();
}

Tensor WeightBuckets::own(int bucket, const BucketLayout::Range& range) const {
  if (!sharded()) return buckets_[bucket].whole.Slice(range.begin, range.end);
  const int64_t begin = layout_.Shard(bucket, shards_->rank()).begin;
  return buckets_[bucket].shard.Slice(range.begin - begin, range.end - begin);
}

void WeightBuckets::Share(int bucket) {
  if (sharded() || shards_->size() == 1) return;
  const BucketLayout::Range shard = layout_.Shard(bucket, shards_->rank());
  sharing_.push_back(shards_->AllGather(own(bucket, shard).view(), buckets_[bucket].whole.view()));
  sharing_.back().Start();
}

absl::Status WeightBuckets::FinishSharing() {
  absl::Status status;
  for (comm::Work& work : sharing_) {
    const absl::Status shared = work.Wait();
    if (status.ok()) status = shared;
  }
  sharing_.clear();
  return status;
}

}  // namespace armature
