#include "armature/tensor/tape.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/tensor/backend.h"
#include "armature/tensor/storage.h"

namespace armature {
namespace {

// to = from, or to += from; the dtypes may differ.
absl::Status WriteGradient(const Tensor& from, const GradientSlot& to) {
  if (!to.tensor.ok()) return to.tensor.status();
  Backend& backend = to.tensor.backend();
  Stream& stream = backend.compute_stream();
  Tensor same_dtype = from;
  if (from.dtype() != to.tensor.dtype()) {
    CastArgs cast;
    cast.x = from.data();
    cast.count = from.num_elements();
    cast.from = from.dtype();
    cast.to = to.tensor.dtype();
    if (!to.accumulate) {
      cast.y = to.tensor.data();
      return backend.kernels().cast(stream, cast);
    }
    same_dtype = Tensor::Empty(backend, from.shape(), to.tensor.dtype(), MemoryCategory::kActivations);
    if (!same_dtype.ok()) return same_dtype.status();
    cast.y = same_dtype.data();
    ARMATURE_RETURN_IF_ERROR(backend.kernels().cast(stream, cast));
  }
  if (!to.accumulate) return backend.Copy(to.tensor.view(), same_dtype.view());
  AxpbyArgs add;
  add.a = to.tensor.data();
  add.b = same_dtype.data();
  add.y = to.tensor.data();
  add.count = to.tensor.num_elements();
  add.dtype = to.tensor.dtype();
  return backend.kernels().axpby(stream, add);
}

}  // namespace

// The sink of one function's backward, or of one deferred computation.
class Tape::Sink : public GradientSink {
 public:
  Sink(Tape& tape, absl::string_view name, absl::Span<const int32_t> inputs, bool defer)
      : tape_(tape), name_(name), inputs_(inputs), defer_(defer) {}
  // Everything that was asked for is written now.
  ~Sink() override {
    for (const Asked& asked : asked_) Finish(asked);
    if (tape_.observer_ != nullptr) ShowValues();
  }

  bool Wants(int i) const override { return inputs_[i] >= 0; }

  GradientSlot Slot(int i) override {
    const Value& value = tape_.values_[inputs_[i]];
    const GradientSlot place = WideSlot(i);
    if (!place.tensor.ok() || place.tensor.dtype() == value.dtype) return place;
    // The function writes here, and Finish carries it over.
    const Tensor narrow =
        Tensor::Empty(tape_.backend_, value.shape, value.dtype, MemoryCategory::kActivations);
    if (!narrow.ok()) Fail(narrow.status());
    asked_.back().narrow = narrow;
    return {narrow, /*accumulate=*/false};
  }

  GradientSlot WideSlot(int i) override {
    GradientTarget* target = tape_.values_[inputs_[i]].target;
    if (target == nullptr) return Checked(tape_.ValueSlot(inputs_[i]));
    // The same leaf a second time: what was asked for first is written by now.
    const auto before = std::find_if(asked_.begin(), asked_.end(),
                                     [&](const Asked& asked) { return asked.target == target; });
    if (before != asked_.end()) {
      Finish(*before);
      asked_.erase(before);
    }
    const GradientSlot place = Checked(target->Slot());
    if (place.tensor.ok()) asked_.push_back({target, place, Tensor()});
    return place;
  }

  void Add(int i, const Tensor& gradient) override {
    if (!Wants(i)) return;
    if (!gradient.ok()) return Fail(gradient.status());
    if (tape_.values_[inputs_[i]].target == nullptr) return Fail(tape_.AddGradient(inputs_[i], gradient));
    const GradientSlot slot = WideSlot(i);
    if (slot.tensor.ok()) Fail(WriteGradient(gradient, slot));
  }

  bool defer_weight_gradients() const override { return defer_; }

  void Defer(std::function<void(GradientSink&)> compute) override {
    tape_.deferred_.push_back({std::string(name_), {inputs_.begin(), inputs_.end()}, std::move(compute)});
  }

  void Fail(const absl::Status& why) override { tape_.Fail(name_, why); }

 private:
  // A leaf's place that the function has been given.
  struct Asked {
    GradientTarget* target;
    GradientSlot place;
    Tensor narrow;  // what the function writes instead, if the place is too wide for it
  };

  GradientSlot Checked(const GradientSlot& slot) {
    if (!slot.tensor.ok()) Fail(slot.tensor.status());
    return slot;
  }

  void Finish(const Asked& asked) {
    if (asked.narrow.ok() && tape_.status_.ok()) Fail(WriteGradient(asked.narrow, asked.place));
    // Before the target hands it on to others.
    if (tape_.observer_ != nullptr) Show({asked.place.tensor});
    asked.target->Contributed();
  }

  void Show(absl::Span<const Tensor> gradients) const {
    tape_.observer_->OnGradients(name_, tape_.LeavesOf(inputs_), gradients);
  }

  void ShowValues() const {
    absl::InlinedVector<Tensor, 2> gradients;
    for (int32_t input : inputs_) {
      if (input >= 0 && tape_.values_[input].gradient.ok())
        gradients.push_back(tape_.values_[input].gradient);
    }
    Show(gradients);
  }

  Tape& tape_;
  const absl::string_view name_;
  const absl::Span<const int32_t> inputs_;
  const bool defer_;
  absl::InlinedVector<Asked, 2> asked_;
};

Tape::Tape(Backend& backend, TapeObserver* observer) : backend_(backend), observer_(observer) {}

Tape::~Tape() = default;

Tape::Leaves Tape::LeavesOf(absl::Span<const int32_t> inputs) const {
  Leaves leaves;
  for (int32_t input : inputs) {
    if (input >= 0 && values_[input].target != nullptr) leaves.push_back(values_[input].target);
  }
  return leaves;
}

int32_t Tape::NewValue(const Tensor& tensor) {
  Value value;
  value.shape = tensor.shape();
  value.dtype = tensor.dtype();
  values_.push_back(std::move(value));
  return static_cast<int32_t>(values_.size() - 1);
}

Tensor Tape::Watch(const Tensor& value, GradientTarget* target) {
  if (!value.ok()) return value;
  const int32_t id = NewValue(value);
  values_[id].target = target;
  values_[id].leaf_storage = value.storage();
  return value.OnTape(this, id);
}

void Tape::Record(std::unique_ptr<Function> function, absl::Span<const Tensor> inputs,
                  absl::Span<Tensor> outputs) {
  Node node;
  node.function = std::move(function);
  for (const Tensor& input : inputs) node.inputs.push_back(input.tape() == this ? input.tape_value() : -1);
  for (Tensor& output : outputs) {
    const int32_t value = output.ok() ? NewValue(output) : -1;
    if (value >= 0) output = output.OnTape(this, value);
    node.outputs.push_back(value);
  }
  if (observer_ != nullptr) observer_->OnOutputs(node.function->name(), LeavesOf(node.inputs), outputs);
  nodes_.push_back(std::move(node));
}

GradientSlot Tape::ValueSlot(int32_t id) {
  Value& value = values_[id];
  if (!value.gradient.valid()) {
    value.gradient = Tensor::Empty(backend_, value.shape, value.dtype, MemoryCategory::kActivations);
    return {value.gradient, /*accumulate=*/false};
  }
  if (!value.gradient.unique()) {
    // Another value has the same memory as its gradient (Add shared it): this one needs its own.
    Tensor own = Tensor::Empty(backend_, value.shape, value.dtype, MemoryCategory::kActivations);
    if (own.ok()) {
      const absl::Status copied = backend_.Copy(own.view(), value.gradient.view());
      if (!copied.ok()) own = Tensor::Failed(copied);
    }
    value.gradient = own;
  }
  return {value.gradient, /*accumulate=*/true};
}

absl::Status Tape::AddGradient(int32_t id, const Tensor& gradient) {
  Value& value = values_[id];
  if (gradient.num_elements() != value.shape.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("gradient of shape ", gradient.shape().ToString(),
                                                   " for a value of shape ", value.shape.ToString()));
  }
  if (!value.gradient.valid() && gradient.dtype() == value.dtype) {
    value.gradient = gradient.Detach().Reshape(value.shape);
    return absl::OkStatus();
  }
  return WriteGradient(gradient, ValueSlot(id));
}

void Tape::Fail(absl::string_view name, const absl::Status& why) {
  if (status_.ok()) status_ = AddContext(why, "backward of ", name);
}

void Tape::FinishNode(Node& node, const BackwardOptions& options) {
  absl::InlinedVector<Tensor, 2> grads_out;
  bool any = false;
  for (int32_t output : node.outputs) {
    grads_out.push_back(output >= 0 ? std::move(values_[output].gradient) : Tensor());
    if (output >= 0) values_[output].gradient = Tensor();
    any = any || grads_out.back().valid();
  }
  if (any) {
    Sink sink(*this, node.function->name(), node.inputs, options.defer_weight_gradients);
    node.function->Backward(grads_out, sink);
  }
  node.function.reset();
}

absl::Status Tape::Seed(const Tensor& output, const Tensor& gradient) {
  if (!gradient.ok()) return gradient.status();
  if (gradient.shape() != output.shape()) {
    return absl::InvalidArgumentError(absl::StrCat("gradient of shape ", gradient.shape().ToString(),
                                                   " for a value of shape ", output.shape().ToString()));
  }
  GradientTarget* target = values_[output.tape_value()].target;
  if (target == nullptr) return AddGradient(output.tape_value(), gradient);
  ARMATURE_RETURN_IF_ERROR(WriteGradient(gradient, target->Slot()));
  target->Contributed();
  return absl::OkStatus();
}

absl::Status Tape::Backward(absl::Span<const Tensor> outputs, absl::Span<const Tensor> grads,
                            const BackwardOptions& options) {
  if (walked_) return absl::FailedPreconditionError("Tape::Backward was called before on this tape");
  walked_ = true;
  if (outputs.size() != grads.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Tape::Backward: ", outputs.size(), " outputs and ", grads.size(), " gradients"));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].ok()) return outputs[i].status();
    if (outputs[i].tape() != this) continue;
    ARMATURE_RETURN_IF_ERROR(Seed(outputs[i], grads[i]), "Tape::Backward, output ", i);
  }
  for (auto node = nodes_.rbegin(); node != nodes_.rend() && status_.ok(); ++node) {
    if (options.check != nullptr) status_ = options.check();
    if (status_.ok()) FinishNode(*node, options);
  }
  nodes_.clear();
  return status_;
}

absl::Status Tape::RunDeferred() {
  std::vector<Deferred> deferred = std::move(deferred_);
  deferred_.clear();
  for (Deferred& item : deferred) {
    if (!status_.ok()) break;
    Sink sink(*this, item.name, item.inputs, /*defer=*/false);
    item.compute(sink);
    item.compute = nullptr;
  }
  return status_;
}

int64_t Tape::saved_bytes() const {
  absl::flat_hash_set<const Storage*> seen;
  for (const Value& value : values_) {
    if (value.leaf_storage != nullptr) seen.insert(value.leaf_storage);
  }
  int64_t bytes = 0;
  for (const Node& node : nodes_) {
    for (const Tensor& tensor : node.function->saved()) {
      if (tensor.ok() && seen.insert(tensor.storage()).second) bytes += tensor.size_bytes();
    }
  }
  return bytes;
}

Tensor RecordIfOnTape(Tensor output, absl::Span<const Tensor> inputs,
                      absl::FunctionRef<std::unique_ptr<Function>()> make) {
  Tape* tape = nullptr;
  for (const Tensor& input : inputs) {
    if (input.tape() == nullptr) continue;
    if (tape != nullptr && tape != input.tape()) {
      return Tensor::Failed(absl::InvalidArgumentError("inputs of one operation are on different tapes"));
    }
    tape = input.tape();
  }
  if (tape != nullptr && output.ok()) tape->Record(make(), inputs, absl::MakeSpan(&output, 1));
  return output;
}

}  // namespace armature
