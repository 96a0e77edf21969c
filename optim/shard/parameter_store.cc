#include "armature/optim/shard/parameter_store.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/optim/clip.h"

namespace armature {
namespace {

// A parameter begins at a cache line, so that no two threads or kernels share one.
constexpr int64_t kAlignmentElements = 16;

}  // namespace

// A parameter's place in the gradient bucket.
class ParameterStore::Target : public GradientTarget {
 public:
  explicit Target(Tensor place) : place_(std::move(place)) {}
  GradientSlot Slot() override { return {place_, written_}; }
  void Contributed() override { written_ = true; }
  void Begin() { written_ = false; }
  bool written() const { return written_; }

 private:
  const Tensor place_;
  bool written_ = false;
};

ParameterStore::ParameterStore(Backend& backend, const std::vector<ParameterSpec>& specs,
                               const UpdateRule& rule, const ParameterStoreOptions& options)
    : backend_(backend), specs_(specs), state_specs_(rule.States()), options_(options) {
  for (const ParameterSpec& spec : specs_) {
    offsets_.push_back(bucket_elements_);
    const int64_t elements = spec.shape.num_elements();
    num_parameters_ += elements;
    bucket_elements_ += (elements + kAlignmentElements - 1) / kAlignmentElements * kAlignmentElements;
  }
}

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Create(
    Backend& backend, const std::vector<ParameterSpec>& specs, const UpdateRule& rule,
    const ParameterStoreOptions& options) {
  if (backend.device().kind != Device::Kind::kCpu) {
    return absl::UnimplementedError("parameters on this device: update rules run on the CPU");
  }
  std::unique_ptr<ParameterStore> store(new ParameterStore(backend, specs, rule, options));
  ARMATURE_RETURN_IF_ERROR(store->Allocate());
  return store;
}

absl::Status ParameterStore::Allocate() {
  const Shape bucket{bucket_elements_};
  weights_ = Tensor::Empty(backend_, bucket, DType::kF32, MemoryCategory::kParameters);
  ARMATURE_RETURN_IF_ERROR(weights_.status());
  gradients_ = Tensor::Empty(backend_, bucket, DType::kF32, MemoryCategory::kGradients);
  ARMATURE_RETURN_IF_ERROR(gradients_.status());
  for (size_t i = 0; i < state_specs_.size(); ++i) {
    states_.push_back(Tensor::Zeros(backend_, bucket, DType::kF32, MemoryCategory::kOptimizer));
    ARMATURE_RETURN_IF_ERROR(states_.back().status());
  }
  for (size_t i = 0; i < specs_.size(); ++i) {
    ARMATURE_RETURN_IF_ERROR(Initialize(backend_, specs_[i], options_.seed, 0, View(weights_, i).view()));
    targets_.push_back(std::make_unique<Target>(View(gradients_, i)));
  }
  return absl::OkStatus();
}

ParameterStore::~ParameterStore() = default;

Tensor ParameterStore::View(const Tensor& bucket, size_t index) const {
  const int64_t begin = offsets_[index];
  return bucket.Slice(begin, begin + specs_[index].shape.num_elements()).Reshape(specs_[index].shape);
}

Tensor ParameterStore::Borrow(ParameterId id, Tape* tape) {
  if (id.index < 0 || id.index >= static_cast<int>(specs_.size())) {
    return Tensor::Failed(absl::InternalError(absl::StrCat("no parameter has the number ", id.index)));
  }
  const Tensor weight = View(weights_, id.index);
  return tape == nullptr ? weight : tape->Watch(weight, targets_[id.index].get());
}

void ParameterStore::BeginStep() {
  for (const std::unique_ptr<Target>& target : targets_) target->Begin();
}

absl::Status ParameterStore::FinishGradients() {
  for (size_t i = 0; i < targets_.size(); ++i) {
    if (targets_[i]->written()) continue;
    const absl::Span<float> gradient = SpanOf(gradients_, i);
    std::memset(gradient.data(), 0, gradient.size() * sizeof(float));
  }
  return absl::OkStatus();
}

std::vector<std::string> ParameterStore::ParametersWithoutGradient() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < targets_.size(); ++i) {
    if (!targets_[i]->written()) names.push_back(specs_[i].name);
  }
  return names;
}

absl::Span<float> ParameterStore::SpanOf(const Tensor& bucket, size_t index) const {
  return absl::MakeSpan(static_cast<float*>(bucket.data()) + offsets_[index],
                        specs_[index].shape.num_elements());
}

double ParameterStore::GradientSquares() const {
  std::vector<absl::Span<const float>> parts;
  for (size_t i = 0; i < specs_.size(); ++i) parts.push_back(SpanOf(gradients_, i));
  return SumOfSquares(parts, options_.threads);
}

absl::Status ParameterStore::Update(const UpdateRule& rule, const StepFacts& facts) {
  const size_t num_states = states_.size();
  std::vector<absl::Span<float>> states(specs_.size() * num_states);
  std::vector<UpdateView> views(specs_.size());
  for (size_t i = 0; i < specs_.size(); ++i) {
    for (size_t s = 0; s < num_states; ++s) states[i * num_states + s] = SpanOf(states_[s], i);
    UpdateView& view = views[i];
    view.weight = SpanOf(weights_, i);
    view.gradient = SpanOf(gradients_, i);
    view.state = absl::MakeConstSpan(states).subspan(i * num_states, num_states);
    view.facts.parameter = static_cast<int64_t>(i);
    view.facts.global_shape = specs_[i].shape;
    view.facts.decay = DecaysByDefault(specs_[i].shape);
  }
  StepFacts with_threads = facts;
  with_threads.threads = options_.threads;
  return rule.Update(views, with_threads);
}

std::vector<NamedBuffer> ParameterStore::Parts(const Tensor& bucket,
                                                        absl::string_view prefix) const {
  std::vector<NamedBuffer> parts;
  for (size_t i = 0; i < specs_.size(); ++i) {
    parts.push_back({absl::StrCat(prefix, specs_[i].name), specs_[i].shape, View(bucket, i).view()});
  }
  return parts;
}

std::vector<NamedBuffer> ParameterStore::Weights() const { return Parts(weights_, ""); }

std::vector<NamedBuffer> ParameterStore::Gradients() const { return Parts(gradients_, ""); }

std::vector<NamedBuffer> ParameterStore::States() const {
  std::vector<NamedBuffer> parts;
  for (size_t s = 0; s < states_.size(); ++s) {
    for (NamedBuffer& part : Parts(states_[s], absl::StrCat("optimizer.", state_specs_[s].name, "."))) {
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

}  // namespace armature
