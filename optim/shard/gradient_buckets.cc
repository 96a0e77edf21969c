#include "armature/optim/shard/gradient_buckets.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/tensor/backend.h"
#include "armature/tensor/kernels.h"

namespace armature {
namespace {

// Buckets that may be under way beside the one that is written, where each needs memory of its own.
constexpr size_t kReductionsInFlight = 2;

}  // namespace

// A parameter's place in the bucket, and how often it was written.
class GradientBuckets::Target : public GradientTarget {
 public:
  Target(GradientBuckets& buckets, int parameter) : buckets_(buckets), parameter_(parameter) {}

  GradientSlot Slot() override { return {buckets_.Place(parameter_), writes_ > 0}; }
  void Contributed() override {
    ++writes_;
    any_in_step_ = true;
    buckets_.Contributed(parameter_);
  }

  void BeginStep() { any_in_step_ = false; }
  void BeginRound(int backwards) {
    writes_ = 0;
    expected_ = learned_ < 0 ? -1 : learned_ * backwards;
  }
  // How often a backward writes it is known only from an earlier one.
  void EndRound(int backwards) {
    if (backwards > 0) learned_ = writes_ % backwards == 0 ? writes_ / backwards : -1;
  }

  bool written() const { return writes_ > 0; }
  bool any_in_step() const { return any_in_step_; }
  bool expects_nothing() const { return expected_ == 0; }
  bool complete() const { return writes_ == expected_; }

 private:
  GradientBuckets& buckets_;
  const int parameter_;
  int writes_ = 0;     // in this round
  int expected_ = -1;  // in this round; -1: unknown
  int learned_ = -1;   // in each backward
  bool any_in_step_ = false;
};

GradientBuckets::GradientBuckets(Backend& backend, const BucketLayout& layout, comm::Communicator& shards,
                                 const Options& options)
    : backend_(backend),
      layout_(layout),
      shards_(&shards),
      options_(options),
      buckets_(layout.buckets().size()),
      round_is_microbatch_(options.reproducible || options.kind == Options::Kind::kSharded) {
  int num_parameters = 0;
  for (const BucketLayout::Bucket& bucket : layout.buckets()) {
    num_parameters += static_cast<int>(bucket.parameters.size());
  }
  for (int i = 0; i < num_parameters; ++i) targets_.push_back(std::make_unique<Target>(*this, i));
  order_.resize(buckets_.size());
  std::iota(order_.begin(), order_.end(), 0);
}

GradientBuckets::~GradientBuckets() { Abandon(); }

void GradientBuckets::Abandon() {
  for (Reduction& reduction : reductions_) reduction.work.Wait().IgnoreError();
  reductions_.clear();
}

absl::Status GradientBuckets::Allocate() {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const BucketLayout::Bucket& bucket = layout_.buckets()[b];
    Tensor& kept = sharded() ? buckets_[b].sum : buckets_[b].current;
    kept = Tensor::Empty(backend_, Shape{sharded() ? bucket.shard_elements : bucket.elements}, options_.dtype,
                         MemoryCategory::kGradients);
    ARMATURE_RETURN_IF_ERROR(kept.status(), "gradients");
  }
  return absl::OkStatus();
}

GradientTarget* GradientBuckets::target(int parameter) const { return targets_[parameter].get(); }

bool GradientBuckets::has_gradient(int parameter) const { return targets_[parameter]->any_in_step(); }

void GradientBuckets::Fail(const absl::Status& why) {
  if (status_.ok()) status_ = why;
}

void GradientBuckets::Reconnect(comm::Communicator& shards, comm::Communicator* mirrors,
                                comm::Communicator* tensor) {
  shards_ = &shards;
  options_.mirrors = mirrors;
  options_.tensor = tensor;
}

void GradientBuckets::BeginStep(int microbatches) {
  Abandon();
  status_ = absl::OkStatus();
  reducing_ = waited_ = absl::ZeroDuration();
  microbatches_ = microbatches;
  round_ = backward_ = contributions_ = 0;
  for (const std::unique_ptr<Target>& target : targets_) target->BeginStep();
  for (Bucket& bucket : buckets_) {
    bucket.tree.clear();
    bucket.last_written = 0;
    if (sharded()) bucket.current = Tensor();
  }
  BeginRound();
}

void GradientBuckets::BeginRound() {
  next_to_close_ = 0;
  for (const std::unique_ptr<Target>& target : targets_) {
    target->BeginRound(round_is_microbatch_ ? 1 : microbatches_);
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    buckets_[b].closed = false;
    buckets_[b].incomplete = 0;
    for (int parameter : layout_.buckets()[b].parameters) {
      if (!targets_[parameter]->expects_nothing()) ++buckets_[b].incomplete;
    }
  }
}

absl::Status GradientBuckets::EndMicrobatch() {
  ++backward_;
  if (!round_is_microbatch_) return status_;
  ARMATURE_RETURN_IF_ERROR(EndRound());
  ++round_;
  if (round_ < microbatches_) BeginRound();
  return absl::OkStatus();
}

absl::Status GradientBuckets::EndRound() {
  while (status_.ok() && next_to_close_ < order_.size()) Close(order_[next_to_close_++]);
  for (const std::unique_ptr<Target>& target : targets_) {
    target->EndRound(round_is_microbatch_ ? 1 : microbatches_);
  }
  return status_;
}

absl::Status GradientBuckets::Finish() {
  if (!round_is_microbatch_) ARMATURE_RETURN_IF_ERROR(EndRound());
  while (status_.ok() && !reductions_.empty()) Fail(FinishOldest());
  return status_;
}

Tensor GradientBuckets::own(int bucket) const {
  if (sharded()) return buckets_[bucket].sum;
  if (options_.kind == Options::Kind::kWhole) return buckets_[bucket].current;
  const BucketLayout::Range shard = layout_.Shard(bucket, shards_->rank());
  return buckets_[bucket].current.Slice(shard.begin, shard.end);
}

Tensor GradientBuckets::Place(int parameter) {
  const BucketLayout::Place& place = layout_.place(parameter);
  Bucket& bucket = buckets_[place.bucket];
  if (bucket.closed) {
    Fail(absl::FailedPreconditionError(
        absl::StrCat("parameter ", parameter,
                     " got a gradient after the reduction of its bucket began: the "
                     "model uses it more often than in the step before; set overlap to false")));
  }
  if (!status_.ok()) return Tensor::Failed(status_);
  if (!bucket.current.valid()) {
    while (reductions_.size() >= kReductionsInFlight) {
      const absl::Status finished = FinishOldest();
      Fail(finished);
      if (!finished.ok()) return Tensor::Failed(finished);
    }
    bucket.current = Tensor::Empty(backend_, Shape{layout_.buckets()[place.bucket].elements}, options_.dtype,
                                   sharded() ? MemoryCategory::kCommunication : MemoryCategory::kGradients);
    if (!bucket.current.ok()) return bucket.current;
  }
  return bucket.current.Slice(place.begin, place.end());
}

void GradientBuckets::Contributed(int parameter) {
  Bucket& bucket = buckets_[layout_.place(parameter).bucket];
  bucket.last_written = ++contributions_;
  if (!targets_[parameter]->complete()) return;
  --bucket.incomplete;
  if (options_.overlap) CloseComplete();
}

void GradientBuckets::EndBackward(int block) {
  if (!options_.overlap || (!round_is_microbatch_ && backward_ + 1 < microbatches_)) return;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    if (layout_.buckets()[b].first_block >= block) buckets_[b].incomplete = 0;
  }
  CloseComplete();
}

std::vector<int32_t> GradientBuckets::ObservedOrder() const {
  std::vector<int32_t> order = order_;
  const auto time = [this](int bucket) {
    const int last = buckets_[bucket].last_written;
    return last > 0 ? last : contributions_ + 1;  // what got no gradient comes last
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return time(a) < time(b); });
  return order;
}

void GradientBuckets::CloseComplete() {
  while (status_.ok() && next_to_close_ < order_.size() && buckets_[order_[next_to_close_]].incomplete == 0) {
    Close(order_[next_to_close_++]);
  }
}

// All gradients of this round are in the bucket, or never come.
void GradientBuckets::Close(int number) {
  Bucket& bucket = buckets_[number];
  for (int parameter : layout_.buckets()[number].parameters) {
    if (!targets_[parameter]->written()) Fail(FillWithZeros(parameter));
    if (status_.ok()) Fail(SumPartial(parameter));
    if (!status_.ok()) return;
  }
  bucket.closed = true;
  const bool last = round_ + 1 == (round_is_microbatch_ ? microbatches_ : 1);
  if (!sharded() && options_.reproducible) Fail(Fold(bucket, bucket.current, round_));
  if (status_.ok() && (sharded() || last)) Reduce(number);
}

absl::Status GradientBuckets::FillWithZeros(int parameter) {
  const Tensor place = Place(parameter);
  ARMATURE_RETURN_IF_ERROR(place.status());
  FillArgs zeros;
  zeros.y = place.data();
  zeros.count = place.num_elements();
  zeros.dtype = options_.dtype;
  return backend_.kernels().fill(backend_.compute_stream(), zeros);
}

absl::Status GradientBuckets::SumPartial(int parameter) {
  if (options_.tensor == nullptr || options_.tensor->size() == 1 || options_.partial.empty() ||
      !options_.partial[parameter]) {
    return absl::OkStatus();
  }
  return options_.tensor->AllReduce(Place(parameter).view(), comm::ReduceOp::kSum).Wait();
}

void GradientBuckets::Reduce(int number) {
  Bucket& bucket = buckets_[number];
  if (alone()) {
    if (!sharded()) return;
    Fail(Fold(bucket, bucket.current, round_));
    bucket.current = Tensor();
    return;
  }
  Reduction reduction;
  reduction.bucket = number;
  reduction.round = round_;
  const BucketLayout::Range shard = layout_.Shard(number, shards_->rank());
  switch (options_.kind) {
    case Options::Kind::kWhole:
      reduction.work = shards_->AllReduce(bucket.current.view(), comm::ReduceOp::kSum);
      break;
    case Options::Kind::kScatter:
      reduction.work = shards_->ReduceScatter(
          bucket.current.view(), bucket.current.Slice(shard.begin, shard.end).view(), comm::ReduceOp::kSum);
      break;
    case Options::Kind::kSharded:
      reduction.shard =
          Tensor::Empty(backend_, Shape{shard.elements()}, options_.dtype, MemoryCategory::kCommunication);
      if (!reduction.shard.ok()) return Fail(reduction.shard.status());
      reduction.input = std::move(bucket.current);
      bucket.current = Tensor();
      reduction.work =
          shards_->ReduceScatter(reduction.input.view(), reduction.shard.view(), comm::ReduceOp::kSum);
      break;
  }
  if (options_.overlap) reduction.work.Start();
  reductions_.push_back(std::move(reduction));
  if (options_.overlap) GoOnToMirrors();
}

Tensor GradientBuckets::SumOf(const Reduction& reduction) const {
  if (sharded()) return reduction.shard;
  const BucketLayout::Range shard = layout_.Shard(reduction.bucket, shards_->rank());
  return buckets_[reduction.bucket].current.Slice(shard.begin, shard.end);
}

// Those that are complete within the shards, in the order of the reductions: the same on every mirror.
void GradientBuckets::GoOnToMirrors() {
  if (options_.mirrors == nullptr) return;
  for (Reduction& reduction : reductions_) {
    if (reduction.within_shards && !reduction.work.done()) return;
    Fail(GoOnToMirrors(reduction));
  }
}

absl::Status GradientBuckets::GoOnToMirrors(Reduction& reduction) {
  if (options_.mirrors == nullptr || !reduction.within_shards) return absl::OkStatus();
  ARMATURE_RETURN_IF_ERROR(reduction.work.Wait());
  reducing_ += reduction.work.duration();
  reduction.within_shards = false;
  reduction.work = options_.mirrors->AllReduce(SumOf(reduction).view(), comm::ReduceOp::kSum);
  if (options_.overlap) reduction.work.Start();
  return absl::OkStatus();
}

absl::Status GradientBuckets::FinishOldest() {
  Reduction reduction = std::move(reductions_.front());
  reductions_.pop_front();
  const absl::Time begin = absl::Now();
  absl::Status status = GoOnToMirrors(reduction);
  if (status.ok()) status = reduction.work.Wait();
  waited_ += absl::Now() - begin;
  ARMATURE_RETURN_IF_ERROR(status, "reduction of gradients");
  reducing_ += reduction.work.duration();
  if (!sharded()) return absl::OkStatus();
  reduction.input = Tensor();
  return Fold(buckets_[reduction.bucket], reduction.shard, reduction.round);
}

absl::Status GradientBuckets::AddInto(const Tensor& sum, const Tensor& value) const {
  AxpbyArgs args;
  args.a = sum.data();
  args.b = value.data();
  args.y = sum.data();
  args.count = sum.num_elements();
  args.dtype = options_.dtype;
  return backend_.kernels().axpby(backend_.compute_stream(), args);
}

absl::Status GradientBuckets::Fold(Bucket& bucket, Tensor& value, int round) {
  if (options_.reproducible) {
    // Microbatch 2^k * odd - 1 completes k subtrees. `round` counts from 0.
    for (int rest = round; rest % 2 == 1; rest /= 2) {
      ARMATURE_RETURN_IF_ERROR(AddInto(value, bucket.tree.back()));
      bucket.tree.pop_back();
    }
    if (round + 1 < microbatches_) {
      bucket.tree.push_back(std::move(value));
      value = Tensor();
      return absl::OkStatus();
    }
  } else if (round > 0) {
    return AddInto(bucket.sum, value);
  }
  if (!sharded()) return absl::OkStatus();  // `value` is the bucket's own
  return backend_.Copy(bucket.sum.view(), value.view());
}

}  // namespace armature
