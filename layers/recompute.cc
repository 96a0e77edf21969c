#include "armature/layers/recompute.h"

#include <memory>
#include <utility>
#include <vector>

namespace armature {
namespace {

// Hands an inner leaf's gradient to the outer tape.
class SinkTarget : public GradientTarget {
 public:
  SinkTarget(GradientSink& sink, int input) : sink_(sink), input_(input) {}
  GradientSlot Slot() override {
    // A value that the block uses several times adds to what the first use wrote.
    if (!slot_.tensor.valid()) {
      slot_ = sink_.Slot(input_);
      return slot_;
    }
    return {slot_.tensor, /*accumulate=*/true};
  }
  void Contributed() override {}

 private:
  GradientSink& sink_;
  const int input_;
  GradientSlot slot_;
};

class RecomputeFunction : public Function {
 public:
  // `same_as[i]` is the first input that is the same value as input i.
  RecomputeFunction(const Context& context, TapeObserver* observer, Activations in,
                    std::vector<size_t> same_as, Computation run)
      : context_(context),
        observer_(observer),
        in_(std::move(in)),
        same_as_(std::move(same_as)),
        run_(std::move(run)) {}

  absl::string_view name() const override { return "Recompute"; }
  absl::InlinedVector<Tensor, 4> saved() const override { return {in_.begin(), in_.end()}; }

  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    const auto tape = std::make_shared<Tape>(context_.backend(), observer_);
    Context context = context_.WithTape(tape.get());
    std::vector<SinkTarget> targets;
    targets.reserve(in_.size());
    Activations in;
    for (size_t i = 0; i < in_.size(); ++i) {
      targets.emplace_back(sink, static_cast<int>(i));
      if (!sink.Wants(static_cast<int>(i))) {
        in.push_back(in_[i]);
      } else if (same_as_[i] < i) {
        // One leaf for one value: its uses add up in the order in which they would without recomputation.
        in.push_back(in[same_as_[i]].Reshape(in_[i].shape()));
      } else {
        in.push_back(tape->Watch(in_[i], &targets[i]));
      }
    }
    const Activations out = run_(context, in);
    in.clear();
    // Only outputs that gradients flowed into take part.
    std::vector<Tensor> outputs, grads;
    for (size_t i = 0; i < out.size(); ++i) {
      if (!out[i].ok()) return sink.Fail(out[i].status());
      if (!grads_out[i].valid()) continue;
      outputs.push_back(out[i]);
      grads.push_back(grads_out[i]);
    }
    BackwardOptions options;
    options.defer_weight_gradients = sink.defer_weight_gradients();
    sink.Fail(tape->Backward(outputs, grads, options));
    // Gradients of weights go to the weights' own targets.
    if (options.defer_weight_gradients) {
      sink.Defer([tape](GradientSink& later) { later.Fail(tape->RunDeferred()); });
    }
  }

 private:
  const Context context_;
  TapeObserver* const observer_;
  const Activations in_;
  const std::vector<size_t> same_as_;
  const Computation run_;
};

std::vector<size_t> FirstOfTheSameValue(const Activations& in) {
  std::vector<size_t> first;
  for (size_t i = 0; i < in.size(); ++i) {
    size_t j = 0;
    while (j < i && (in[j].tape() != in[i].tape() || in[j].tape_value() != in[i].tape_value())) ++j;
    first.push_back(j);
  }
  return first;
}

}  // namespace

Activations Recompute(Context& context, const Activations& in, Computation run) {
  Tape* tape = context.tape();
  if (tape == nullptr) return run(context, in);
  Context forward = context.WithTape(nullptr);
  Activations detached;
  for (const Tensor& tensor : in) detached.push_back(tensor.ok() ? tensor.Detach() : tensor);
  Activations out = run(forward, detached);
  for (const Tensor& tensor : out) {
    if (!tensor.ok()) return out;
  }
  tape->Record(std::make_unique<RecomputeFunction>(forward, tape->observer(), std::move(detached),
                                                   FirstOfTheSameValue(in), std::move(run)),
               in, absl::MakeSpan(out));
  return out;
}

Activations Recompute(Context& context, const Activations& in, const Block& block) {
  return Recompute(context, in, [&block](Context& inner, const Activations& again) {
    return block.Forward(inner, again);
  });
}

Tensor RunPart(Context& context, absl::string_view part, const Tensor& x,
               const std::function<Tensor(Context&, const Tensor&)>& run) {
  if (!context.Recomputes(part)) return run(context, x);
  return Recompute(context, {x}, [run](Context& inner, const Activations& in) {
    return Activations{run(inner, in[0])};
  })[0];
}

}  // namespace armature
