#include "armature/optim/shard/parameter_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/crc32c.h"
#include "armature/base/status_macros.h"
#include "armature/comm/inproc/inproc_group.h"
#include "armature/optim/clip.h"
#include "armature/tensor/backend.h"
#include "armature/tensor/kernels.h"
#include "armature/tensor/ops/elementwise.h"

namespace armature {
namespace {

absl::Span<float> AsSpan(const Tensor& tensor) {
  return absl::MakeSpan(static_cast<float*>(tensor.data()), tensor.num_elements());
}

GradientBucketsOptions GradientOptions(const ParameterStoreOptions& options) {
  using Kind = GradientBucketsOptions::Kind;
  GradientBucketsOptions gradients;
  gradients.kind = options.sharding >= 2   ? Kind::kSharded
                   : options.sharding == 1 ? Kind::kScatter
                                           : Kind::kWhole;
  gradients.dtype = options.gradient_dtype;
  gradients.reproducible = options.reproducible;
  gradients.overlap = options.overlap;
  gradients.tensor = options.tensor;
  return gradients;
}

}  // namespace

ParameterStore::ParameterStore(Backend& backend, const std::vector<ParameterSpec>& specs,
                               const UpdateRule& rule, const ParameterStoreOptions& options)
    : backend_(backend), specs_(specs), state_specs_(rule.States()), options_(options) {
  for (const ParameterSpec& spec : specs_) num_parameters_ += spec.global_shape.num_elements();
}

ParameterStore::~ParameterStore() = default;

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Create(
    Backend& backend, const std::vector<ParameterSpec>& specs, const UpdateRule& rule,
    const ParameterStoreOptions& options) {
  if (options.sharding < 0 || options.sharding > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("sharding is ", options.sharding, ", must be 0, 1, 2 or 3"));
  }
  if (options.shard_ranks < 0 || (options.shard_ranks > 0 && options.replicas != nullptr &&
                                  options.replicas->size() % options.shard_ranks != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shard_ranks is ", options.shard_ranks, ", must divide the ", options.replicas->size(), " replicas"));
  }
  if (options.reproducible && options.gradient_dtype != DType::kF32) {
    return absl::InvalidArgumentError("reproducible sums of gradients must be f32");
  }
  if (!options.blocks.empty() && options.blocks.size() != specs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.blocks.size(), " blocks for ", specs.size(), " parameters"));
  }
  std::unique_ptr<ParameterStore> store(new ParameterStore(backend, specs, rule, options));
  ARMATURE_RETURN_IF_ERROR(store->Build());
  return store;
}

absl::Status ParameterStore::Build() {
  if (options_.replicas == nullptr) {
    ARMATURE_ASSIGN_OR_RETURN(alone_, comm::MakeInprocGroup(1));
    options_.replicas = alone_[0].get();
  }
  ARMATURE_RETURN_IF_ERROR(SplitReplicas());
  std::vector<BucketEntry> entries;
  for (size_t i = 0; i < specs_.size(); ++i) {
    entries.push_back(
        {specs_[i].LocalShape().num_elements(), options_.blocks.empty() ? 0 : options_.blocks[i]});
  }
  BucketLayoutOptions layout;
  layout.shards = shards_->size();
  layout.max_elements = options_.bucket_elements;
  layout.split_at_blocks = gathers_blocks();
  layout_ = std::make_unique<BucketLayout>(entries, layout);
  weights_ = std::make_unique<WeightBuckets>(
      backend_, *layout_, *shards_,
      gathers_blocks() ? WeightBuckets::Kind::kSharded : WeightBuckets::Kind::kWhole, options_.dtype);
  GradientBucketsOptions gradients = GradientOptions(options_);
  gradients.mirrors = mirrors_.get();
  for (const ParameterSpec& spec : specs_) gradients.partial.push_back(spec.sharding.partial_gradient);
  gradients_ = std::make_unique<GradientBuckets>(backend_, *layout_, *shards_, gradients);
  ARMATURE_RETURN_IF_ERROR(weights_->Allocate());
  ARMATURE_RETURN_IF_ERROR(gradients_->Allocate());
  for (size_t b = 0; b < layout_->buckets().size(); ++b) {
    const Shape shape{Owned(static_cast<int>(b)).elements()};
    if (options_.dtype != DType::kF32) {
      masters_.push_back(Tensor::Empty(backend_, shape, DType::kF32, MemoryCategory::kParameters));
      ARMATURE_RETURN_IF_ERROR(masters_.back().status(), "f32 masters");
    }
    states_.emplace_back();
    for (size_t s = 0; s < state_specs_.size(); ++s) {
      states_.back().push_back(Tensor::Zeros(backend_, shape, DType::kF32, MemoryCategory::kOptimizer));
      ARMATURE_RETURN_IF_ERROR(states_.back().back().status(), "optimizer states");
    }
  }
  return Initialize();
}

absl::Status ParameterStore::SplitReplicas() {
  comm::Communicator& replicas = *options_.replicas;
  shards_ = &replicas;
  const int ranks = options_.shard_ranks;
  if (options_.sharding == 0 || ranks == 0 || ranks == replicas.size()) return absl::OkStatus();
  const int rank = replicas.rank();
  ARMATURE_ASSIGN_OR_RETURN(own_shards_, replicas.Split(rank / ranks, rank, "shards"));
  ARMATURE_ASSIGN_OR_RETURN(mirrors_, replicas.Split(rank % ranks, rank, "mirrors"));
  shards_ = own_shards_.get();
  return absl::OkStatus();
}

absl::Status ParameterStore::Initialize() {
  for (size_t i = 0; i < specs_.size(); ++i) {
    ARMATURE_RETURN_IF_ERROR(InitializeParameter(static_cast<int>(i)), "initial values of ", specs_[i].name);
  }
  return ShareWeights();
}

absl::Status ParameterStore::InitializeParameter(int parameter) {
  const BucketLayout::Place& place = layout_->place(parameter);
  const Range part = layout_->PartOf(parameter, Owned(place.bucket));
  if (part.elements() == 0) return absl::OkStatus();
  return armature::Initialize(backend_, specs_[parameter], options_.seed, part.begin - place.begin,
                              Master(place.bucket, part).view());
}

bool ParameterStore::Counts(int parameter) const {
  return specs_[parameter].sharding.dim != -1 || options_.tensor == nullptr || options_.tensor->rank() == 0;
}

BucketLayout::Range ParameterStore::Owned(int bucket) const {
  return options_.sharding == 0 ? Range{0, layout_->buckets()[bucket].elements} : Share(bucket);
}

BucketLayout::Range ParameterStore::Share(int bucket) const {
  return layout_->Shard(bucket, shards_->rank());
}

Tensor ParameterStore::Master(int bucket, const Range& range) const {
  if (masters_.empty()) return weights_->own(bucket, range);
  const int64_t begin = Owned(bucket).begin;
  return masters_[bucket].Slice(range.begin - begin, range.end - begin);
}

Tensor ParameterStore::State(int bucket, size_t state, const Range& range) const {
  const int64_t begin = Owned(bucket).begin;
  return states_[bucket][state].Slice(range.begin - begin, range.end - begin);
}

Tensor ParameterStore::GradientOf(int bucket, const Range& range) const {
  const int64_t begin = Owned(bucket).begin;
  return gradients_->own(bucket).Slice(range.begin - begin, range.end - begin);
}

Tensor ParameterStore::GradientAsF32(int bucket, const Range& range) const {
  return ops::Cast(GradientOf(bucket, range), DType::kF32);
}

Tensor ParameterStore::Borrow(ParameterId id, Tape* tape) {
  if (id.index < 0 || id.index >= static_cast<int>(specs_.size())) {
    return Tensor::Failed(absl::InternalError(absl::StrCat("no parameter has the number ", id.index)));
  }
  const Tensor weight = weights_->Borrow(id.index).Reshape(specs_[id.index].LocalShape());
  return tape == nullptr ? weight : tape->Watch(weight, gradients_->target(id.index));
}

absl::Status ParameterStore::BeginBlock(int block) { return weights_->BeginBlock(block); }
void ParameterStore::EndBlock(int block) { weights_->EndBlock(block); }
void ParameterStore::Prefetch(int block) { weights_->Prefetch(block); }

void ParameterStore::BeginStep(int microbatches) { gradients_->BeginStep(microbatches); }

absl::Status ParameterStore::EndMicrobatch() { return gradients_->EndMicrobatch(); }

absl::Status ParameterStore::FinishGradients() {
  weights_->ReleaseAll();
  ARMATURE_RETURN_IF_ERROR(gradients_->Finish());
  return order_is_observed_ ? absl::OkStatus() : FollowObservedOrder();
}

absl::Status ParameterStore::FollowObservedOrder() {
  std::vector<int32_t> order = gradients_->ObservedOrder();
  const BufferView view = {order.data(), static_cast<int64_t>(order.size()), DType::kI32, Device()};
  ARMATURE_RETURN_IF_ERROR(options_.replicas->Broadcast(view, 0).Wait(), "order of reductions");
  if (options_.tensor != nullptr) {
    ARMATURE_RETURN_IF_ERROR(options_.tensor->Broadcast(view, 0).Wait(), "order of reductions");
  }
  gradients_->SetOrder(std::move(order));
  order_is_observed_ = true;
  return absl::OkStatus();
}

absl::Status ParameterStore::Reconnect(comm::Communicator& replicas, comm::Communicator* tensor) {
  options_.replicas = &replicas;
  options_.tensor = tensor;
  ARMATURE_RETURN_IF_ERROR(SplitReplicas());
  gradients_->Reconnect(*shards_, mirrors_.get(), tensor);
  return weights_->Reconnect(*shards_);
}

void ParameterStore::Abort(const absl::Status& why) {
  weights_->Abort(why);
  if (mirrors_ == nullptr) return;
  own_shards_->Abort(why);
  mirrors_->Abort(why);
}

void ParameterStore::Abandon() {
  weights_->ReleaseAll();
  gradients_->Abandon();
}

std::vector<std::string> ParameterStore::ParametersWithoutGradient() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (!gradients_->has_gradient(static_cast<int>(i))) names.push_back(specs_[i].name);
  }
  return names;
}

std::string ParameterStore::NameOf(const GradientTarget* target) const {
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (gradients_->target(static_cast<int>(i)) == target) return specs_[i].name;
  }
  return "";
}

// Of what this rank keeps of each parameter's weights.
std::vector<int64_t> ParameterStore::Checksums() const {
  std::vector<int64_t> checksums;
  for (size_t i = 0; i < specs_.size(); ++i) {
    const int parameter = static_cast<int>(i), bucket = layout_->place(parameter).bucket;
    const Range kept = gathers_blocks() ? Share(bucket) : Range{0, layout_->buckets()[bucket].elements};
    const Range part = layout_->PartOf(parameter, kept);
    uint32_t checksum = 0;
    if (part.elements() > 0) {
      const Tensor weights = weights_->own(bucket, part);
      checksum = Crc32c(absl::string_view(static_cast<const char*>(weights.data()), weights.size_bytes()));
    }
    checksums.push_back(checksum);
  }
  return checksums;
}

absl::Status ParameterStore::CompareChecksums(comm::Communicator& ranks, absl::Span<const int64_t> own,
                                              bool split_too) const {
  const size_t count = own.size();
  std::vector<int64_t> mine(own.begin(), own.end()), all(count * ranks.size());
  const auto view = [](std::vector<int64_t>& values) {
    return BufferView{values.data(), static_cast<int64_t>(values.size()), DType::kI64, Device()};
  };
  ARMATURE_RETURN_IF_ERROR(ranks.AllGather(view(mine), view(all)).Wait(), "comparing replicas");
  for (size_t i = 0; i < count; ++i) {
    if (!split_too && specs_[i].sharding.dim != -1) continue;
    for (int rank = 1; rank < ranks.size(); ++rank) {
      if (all[rank * count + i] == all[i]) continue;
      return absl::DataLossError(absl::StrCat("the weights of ", specs_[i].name,
                                              " differ between ranks 0 and ", rank, " of group ",
                                              ranks.name(), "; restore from a checkpoint"));
    }
  }
  return absl::OkStatus();
}

absl::Status ParameterStore::CheckReplicas() const {
  const std::vector<int64_t> checksums = Checksums();
  if (!gathers_blocks()) {
    ARMATURE_RETURN_IF_ERROR(CompareChecksums(*options_.replicas, checksums, /*split_too=*/true));
  } else if (mirrors_ != nullptr) {
    ARMATURE_RETURN_IF_ERROR(CompareChecksums(*mirrors_, checksums, /*split_too=*/true));
  }
  if (options_.tensor == nullptr) return absl::OkStatus();
  return CompareChecksums(*options_.tensor, checksums, /*split_too=*/false);
}

// Calls f(parameter, bucket, range) for each part of a parameter in this rank's share.
template <typename F>
void ParameterStore::ForEachShare(F f) const {
  if (!first_mirror()) return;
  for (size_t i = 0; i < specs_.size(); ++i) {
    const int parameter = static_cast<int>(i), bucket = layout_->place(parameter).bucket;
    const Range part = layout_->PartOf(parameter, Share(bucket));
    if (part.elements() > 0 && Counts(parameter)) f(parameter, bucket, part);
  }
}

double ParameterStore::GradientSquares() const {
  std::vector<Tensor> gradients;  // keeps copies alive
  std::vector<absl::Span<const float>> parts;
  ForEachShare([&](int, int bucket, const Range& part) {
    gradients.push_back(GradientAsF32(bucket, part));
    parts.push_back(AsSpan(gradients.back()));
  });
  return SumOfSquares(parts, options_.threads);
}

double ParameterStore::LargestGradient() const {
  std::vector<absl::Span<const float>> parts;
  ForEachShare(
      [&](int, int bucket, const Range& part) { parts.push_back(AsSpan(GradientOf(bucket, part))); });
  return LargestMagnitude(parts, options_.threads);
}

ExactSum ParameterStore::GradientSquaresExactly(double largest) const {
  std::vector<absl::Span<const float>> parts;
  ForEachShare(
      [&](int, int bucket, const Range& part) { parts.push_back(AsSpan(GradientOf(bucket, part))); });
  return SumOfSquaresExactly(parts, largest, options_.threads);
}

absl::Status ParameterStore::Update(const UpdateRule& rule, const StepFacts& facts) {
  for (size_t b = 0; b < layout_->buckets().size(); ++b) {
    ARMATURE_RETURN_IF_ERROR(UpdateBucket(static_cast<int>(b), rule, facts));
    ARMATURE_RETURN_IF_ERROR(CastMasters(static_cast<int>(b)));
    if (options_.sharding > 0) weights_->Share(static_cast<int>(b));
  }
  return AddContext(weights_->FinishSharing(), "sharing the new weights");
}

absl::Status ParameterStore::UpdateBucket(int bucket, const UpdateRule& rule, const StepFacts& facts) {
  const size_t num_states = state_specs_.size();
  const std::vector<int>& parameters = layout_->buckets()[bucket].parameters;
  std::vector<absl::Span<float>> states(parameters.size() * num_states);
  std::vector<UpdateView> views;
  std::vector<Tensor> gradients;  // keeps copies alive
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int parameter = parameters[i];
    const Range part = layout_->PartOf(parameter, Owned(bucket));
    if (part.elements() == 0) continue;
    gradients.push_back(GradientAsF32(bucket, part));
    ARMATURE_RETURN_IF_ERROR(gradients.back().status(), "gradient of ", specs_[parameter].name);
    absl::Span<float>* const own_states = &states[i * num_states];
    for (size_t s = 0; s < num_states; ++s) own_states[s] = AsSpan(State(bucket, s, part));
    UpdateView view;
    view.weight = AsSpan(Master(bucket, part));
    view.gradient = AsSpan(gradients.back());
    view.state = absl::MakeConstSpan(own_states, num_states);
    view.facts.parameter = static_cast<int64_t>(i);
    view.facts.global_shape = specs_[parameter].global_shape;
    view.facts.decay = DecaysByDefault(specs_[parameter].global_shape);
    view.facts.offset = part.begin - layout_->place(parameter).begin;
    views.push_back(view);
  }
  StepFacts shared = facts;
  shared.threads = options_.threads;
  const bool is_split = options_.sharding > 0 || (options_.tensor != nullptr && options_.tensor->size() > 1);
  if (is_split) {
    shared.num_parameters = static_cast<int64_t>(parameters.size());
    shared.sum_over_shards = [&](absl::Span<double> sums) { return SumOverShards(parameters, sums); };
  }
  return rule.Update(views, shared);
}

// `sums` has the same number of entries for each of the parameters, in their order.
absl::Status ParameterStore::SumOverShards(const std::vector<int>& parameters,
                                           absl::Span<double> sums) const {
  const BufferView view = {sums.data(), static_cast<int64_t>(sums.size()), DType::kF64, Device()};
  if (options_.sharding > 0) {
    ARMATURE_RETURN_IF_ERROR(shards_->AllReduce(view, comm::ReduceOp::kSum).Wait());
  }
  if (options_.tensor == nullptr || options_.tensor->size() == 1) return absl::OkStatus();
  // What every tensor rank holds whole counts once.
  const size_t entries = parameters.empty() ? 0 : sums.size() / parameters.size();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (Counts(parameters[i])) continue;
    for (double& entry : sums.subspan(i * entries, entries)) entry = 0;
  }
  return options_.tensor->AllReduce(view, comm::ReduceOp::kSum).Wait();
}

absl::Status ParameterStore::CastMasters(int bucket) {
  if (masters_.empty()) return absl::OkStatus();
  const Range owned = Owned(bucket);
  const Tensor master = Master(bucket, owned), weights = weights_->own(bucket, owned);
  CastArgs args;
  args.x = master.data();
  args.y = weights.data();
  args.count = owned.elements();
  args.from = DType::kF32;
  args.to = options_.dtype;
  return backend_.kernels().cast(backend_.compute_stream(), args);
}

absl::Status ParameterStore::ShareWeights() {
  ReleaseBlocks();
  for (size_t b = 0; b < layout_->buckets().size(); ++b) {
    ARMATURE_RETURN_IF_ERROR(CastMasters(static_cast<int>(b)));
    if (options_.sharding > 0) weights_->Share(static_cast<int>(b));
  }
  return AddContext(weights_->FinishSharing(), "sharing the weights");
}

// The elements [begin, end) of a rank's parameter, which lie at `memory`, as slices of the whole.
void ParameterStore::AppendSlices(absl::string_view prefix, int parameter, const Range& part,
                                  const Tensor& memory, std::vector<ShardedArray>& arrays) const {
  const ParameterSpec& spec = specs_[parameter];
  const Shape local_shape = spec.LocalShape();
  const std::vector<int64_t> strides = RowMajorStrides(local_shape);
  const int64_t begin = part.begin - layout_->place(parameter).begin;
  for (const Slice& box : SlicesOfFlatRange(local_shape, begin, begin + part.elements())) {
    for (const ShardPiece& piece : spec.Pieces()) {
      const absl::optional<Slice> local = Intersect(box, piece.local);
      if (!local.has_value()) continue;
      ShardedArray array;
      array.name = absl::StrCat(prefix, spec.name);
      array.global_shape = spec.global_shape;
      array.slice = *local;
      int64_t first = -begin;
      for (int i = 0; i < local_shape.rank(); ++i) {
        array.slice.offset[i] += piece.global.offset[i] - piece.local.offset[i];
        first += local->offset[i] * strides[i];
      }
      array.local = memory.view();
      array.local.data = static_cast<char*>(array.local.data) + first * SizeOf(memory.dtype());
      array.local.count = local->shape.num_elements();
      if (RowMajorStrides(local->shape) != strides) array.strides = strides;
      arrays.push_back(std::move(array));
    }
  }
}

std::vector<ShardedArray> ParameterStore::Slices(Kind kind, bool once) const {
  std::vector<ShardedArray> arrays;
  if (once && !first_mirror()) return arrays;
  const size_t rounds = kind == Kind::kStates ? state_specs_.size() : 1;
  for (size_t s = 0; s < rounds; ++s) {
    for (size_t i = 0; i < specs_.size(); ++i) {
      const int parameter = static_cast<int>(i), bucket = layout_->place(parameter).bucket;
      if (once && !Counts(parameter)) continue;
      const Range part = layout_->PartOf(parameter, once ? Share(bucket) : Owned(bucket));
      if (part.elements() == 0) continue;
      switch (kind) {
        case Kind::kWeights:
          AppendSlices("", parameter, part, Master(bucket, part), arrays);
          break;
        case Kind::kGradients:
          AppendSlices("", parameter, part, GradientOf(bucket, part), arrays);
          break;
        case Kind::kStates:
          AppendSlices(absl::StrCat("optimizer.", state_specs_[s].name, "."), parameter, part,
                       State(bucket, s, part), arrays);
          break;
      }
    }
  }
  return arrays;
}

}  // namespace armature
