#include "armature/tensor/ops/activation.h"

#include <memory>
#include <utility>

#include "armature/tensor/ops/op_support.h"

namespace armature {
namespace ops {
namespace {

class ActivateFunction : public Function {
 public:
  ActivateFunction(Tensor x, Activation activation) : x_(std::move(x)), activation_(activation) {}
  absl::string_view name() const override { return "Activate"; }
  absl::InlinedVector<Tensor, 4> saved() const override { return {x_}; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    const GradientSlot slot = sink.Slot(0);
    if (!slot.tensor.ok()) return;
    ActivationBackwardArgs args;
    args.pre = x_.data();
    args.dy = grads_out[0].data();
    args.dx = slot.tensor.data();
    args.count = x_.num_elements();
    args.activation = activation_;
    args.dtype = x_.dtype();
    args.accumulate = slot.accumulate;
    sink.Fail(Launch(x_.backend(), x_.backend().kernels().activation_backward, args, name()));
  }

 private:
  const Tensor x_;
  const Activation activation_;
};

class SoftmaxFunction : public Function {
 public:
  explicit SoftmaxFunction(Tensor y) : y_(std::move(y)) {}
  absl::string_view name() const override { return "Softmax"; }
  absl::InlinedVector<Tensor, 4> saved() const override { return {y_}; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    const GradientSlot slot = sink.Slot(0);
    if (!slot.tensor.ok()) return;
    SoftmaxBackwardArgs args;
    args.y = y_.data();
    args.dy = grads_out[0].data();
    args.dx = slot.tensor.data();
    args.rows = y_.shape().num_rows();
    args.cols = y_.shape().dim(-1);
    args.dtype = y_.dtype();
    args.accumulate = slot.accumulate;
    sink.Fail(Launch(y_.backend(), y_.backend().kernels().softmax_backward, args, name()));
  }

 private:
  const Tensor y_;
};

}  // namespace

Tensor Activate(const Tensor& x, Activation activation) {
  if (!x.ok()) return Tensor::Failed(x.status());
  if (!IsFloat(x.dtype())) return Invalid("Activate: x ", Describe(x), ": a float dtype is needed");
  Tensor y = NewLike(x);
  if (!y.ok()) return y;
  BiasActivationArgs args;
  args.x = x.data();
  args.y = y.data();
  args.rows = 1;
  args.cols = x.num_elements();
  args.activation = activation;
  args.dtype = x.dtype();
  const absl::Status status = Launch(x.backend(), x.backend().kernels().bias_activation, args, "Activate");
  if (!status.ok()) return Tensor::Failed(status);
  return RecordIfOnTape(std::move(y), {x},
                        [&] { return std::make_unique<ActivateFunction>(x.Detach(), activation); });
}

Tensor Softmax(const Tensor& x) {
  if (!x.ok()) return Tensor::Failed(x.status());
  if (!IsFloat(x.dtype()) || x.shape().rank() < 1) {
    return Invalid("Softmax: x ", Describe(x), ": a float tensor [..., n] is needed");
  }
  Tensor y = NewLike(x);
  if (!y.ok()) return y;
  SoftmaxArgs args;
  args.x = x.data();
  args.y = y.data();
  args.rows = x.shape().num_rows();
  args.cols = x.shape().dim(-1);
  args.dtype = x.dtype();
  const absl::Status status = Launch(x.backend(), x.backend().kernels().softmax, args, "Softmax");
  if (!status.ok()) return Tensor::Failed(status);
  const Tensor result = y;
  return RecordIfOnTape(std::move(y), {x}, [&] { return std::make_unique<SoftmaxFunction>(result); });
}

}  // namespace ops
}  // namespace armature
