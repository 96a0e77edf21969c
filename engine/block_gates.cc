#include "armature/engine/block_gates.h"

#include <memory>
#include <utility>

namespace armature {
namespace {

class GateFunction : public Function {
 public:
  explicit GateFunction(std::function<absl::Status()> on_backward) : on_backward_(std::move(on_backward)) {}
  absl::string_view name() const override { return "Gate"; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    sink.Fail(on_backward_());
    for (size_t i = 0; i < grads_out.size(); ++i) {
      if (grads_out[i].valid() && sink.Wants(static_cast<int>(i)))
        sink.Add(static_cast<int>(i), grads_out[i]);
    }
  }

 private:
  const std::function<absl::Status()> on_backward_;
};

}  // namespace

Activations Gate(Context& context, const Activations& in, std::function<absl::Status()> on_backward) {
  if (context.tape() == nullptr || in.empty()) return in;
  Activations out;
  for (const Tensor& tensor : in) {
    if (!tensor.ok()) return in;
    out.push_back(tensor.Detach());
  }
  context.tape()->Record(std::make_unique<GateFunction>(std::move(on_backward)), in, absl::MakeSpan(out));
  return out;
}

Activations RunGated(Context& context, ParameterSource& parameters, int index, const Activations& in,
                     const std::function<Activations(const Activations&)>& run) {
  const absl::Status begun = parameters.BeginBlock(index);
  if (!begun.ok()) return {Tensor::Failed(begun)};
  parameters.Prefetch(index + 1);
  const Activations entered = Gate(context, in, [&parameters, index] {
    parameters.EndBlock(index);
    parameters.EndBackward(index);
    return absl::OkStatus();
  });
  const Activations out = Gate(context, run(entered), [&parameters, index] {
    const absl::Status begun_again = parameters.BeginBlock(index);
    parameters.Prefetch(index - 1);
    return begun_again;
  });
  parameters.EndBlock(index);
  return out;
}

}  // namespace armature
