#include "armature/tensor/ops/norm.h"

#include <memory>
#include <utility>

#include "armature/tensor/ops/op_support.h"

namespace armature {
namespace ops {
namespace {

class NormFunction : public Function {
 public:
  // `distinct`: no two of x, weight and bias are the same value.
  NormFunction(absl::string_view name, Tensor x, Tensor weight, Tensor mean, Tensor rstd, bool distinct)
      : name_(name),
        x_(std::move(x)),
        weight_(std::move(weight)),
        mean_(std::move(mean)),
        rstd_(std::move(rstd)),
        distinct_(distinct) {}

  absl::string_view name() const override { return name_; }
  absl::InlinedVector<Tensor, 4> saved() const override { return {x_, weight_, mean_, rstd_}; }

  // One pass over memory writes all three gradients, except those of one and the same value, and those of two
  // parameters in different dtypes.
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    GradientSlot slots[3];
    for (int i = 0; i < 3; ++i) {
      if (!sink.Wants(i)) continue;
      GradientSlot slot = i == 0 ? sink.Slot(0) : sink.WideSlot(i);
      if (!slot.tensor.ok()) return;
      if (i == 2 && slots[1].tensor.ok() && slots[1].tensor.dtype() != slot.tensor.dtype()) {
        Write(grads_out[0], slots, sink);
      }
      slots[i] = std::move(slot);
      if (!distinct_) Write(grads_out[0], slots, sink);
    }
    Write(grads_out[0], slots, sink);
  }

 private:
  // Computes the gradients whose slots are set, and clears the slots.
  void Write(const Tensor& dy, GradientSlot (&slots)[3], GradientSink& sink) const {
    NormBackwardArgs args;
    args.dy = dy.data();
    args.x = x_.data();
    args.weight = weight_.data();
    args.mean = mean_.ok() ? mean_.data() : nullptr;
    args.rstd = rstd_.data();
    args.rows = x_.shape().num_rows();
    args.cols = x_.shape().dim(-1);
    args.dtype = args.parameter_grad_dtype = x_.dtype();
    void** data[3] = {&args.dx, &args.dweight, &args.dbias};
    bool* accumulate[3] = {&args.accumulate_dx, &args.accumulate_dweight, &args.accumulate_dbias};
    bool any = false;
    for (int i = 0; i < 3; ++i) {
      if (!slots[i].tensor.ok()) continue;
      any = true;
      *data[i] = slots[i].tensor.data();
      *accumulate[i] = slots[i].accumulate;
      if (i > 0) args.parameter_grad_dtype = slots[i].tensor.dtype();
    }
    const KernelTable& kernels = x_.backend().kernels();
    if (any) {
      sink.Fail(Launch(x_.backend(), mean_.ok() ? kernels.layer_norm_backward : kernels.rms_norm_backward,
                       args, name_));
    }
    for (GradientSlot& slot : slots) slot = GradientSlot();
  }

  const absl::string_view name_;
  const Tensor x_, weight_, mean_, rstd_;
  const bool distinct_;
};

Tensor Norm(absl::string_view name, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
            bool centred) {
  absl::Status status = FirstError({&x, &weight});
  if (status.ok() && bias.valid()) status = bias.status();
  if (!status.ok()) return Tensor::Failed(status);
  const bool fits = x.shape().rank() >= 1 && weight.shape() == Shape{x.shape().dim(-1)} &&
                    (!bias.valid() || bias.shape() == weight.shape()) && IsFloat(x.dtype()) &&
                    weight.dtype() == x.dtype() && (!bias.valid() || bias.dtype() == x.dtype());
  if (!fits) {
    return Invalid(name, ": x ", Describe(x), " and weight ", Describe(weight),
                   bias.valid() ? absl::StrCat(" and bias ", Describe(bias)) : std::string(),
                   ": x [..., n], weight and bias [n] of one float dtype are needed");
  }
  const Shape per_row{x.shape().num_rows()};
  Tensor y = NewLike(x);
  Tensor rstd = NewLike(x, per_row, StatisticsDType(x.dtype()));
  Tensor mean = centred ? NewLike(x, per_row, StatisticsDType(x.dtype())) : Tensor();
  status = FirstError({&y, &rstd});
  if (status.ok() && centred) status = mean.status();
  if (!status.ok()) return Tensor::Failed(status);
  NormArgs args;
  args.x = x.data();
  args.weight = weight.data();
  args.bias = bias.valid() ? bias.data() : nullptr;
  args.y = y.data();
  args.mean = centred ? mean.data() : nullptr;
  args.rstd = rstd.data();
  args.rows = x.shape().num_rows();
  args.cols = x.shape().dim(-1);
  args.eps = eps;
  args.dtype = x.dtype();
  const KernelTable& kernels = x.backend().kernels();
  status = Launch(x.backend(), centred ? kernels.layer_norm : kernels.rms_norm, args, name);
  if (!status.ok()) return Tensor::Failed(status);
  const bool distinct = x.data() != weight.data() &&
                        (!bias.valid() || (bias.data() != weight.data() && bias.data() != x.data()));
  return RecordIfOnTape(std::move(y), {x, weight, bias}, [&] {
    return std::make_unique<NormFunction>(name, x.Detach(), weight.Detach(), mean, rstd, distinct);
  });
}

}  // namespace

Tensor LayerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return Norm("LayerNorm", x, weight, bias, eps, /*centred=*/true);
}

Tensor RmsNorm(const Tensor& x, const Tensor& weight, double eps) {
  return Norm("RmsNorm", x, weight, Tensor(), eps, /*centred=*/false);
}

}  // namespace ops
}  // namespace armature
