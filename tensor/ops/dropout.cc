#include "armature/tensor/ops/dropout.h"

#include <memory>

#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/ops/op_support.h"

namespace armature {
namespace ops {
namespace {

constexpr absl::string_view kName = "Dropout";

absl::Status Run(const Tensor& x, const Tensor& residual, const Tensor& y, double p,
                 const RandomRegion& region, bool accumulate) {
  DropoutArgs args;
  args.x = x.data();
  args.residual = residual.ok() ? residual.data() : nullptr;
  args.y = y.data();
  args.samples = x.num_elements() == 0 ? 0 : x.shape().dim(0);
  args.p = p;
  args.region = region;
  args.dtype = x.dtype();
  args.accumulate = accumulate;
  return Launch(x.backend(), x.backend().kernels().dropout, args, kName);
}

class DropoutFunction : public Function {
 public:
  DropoutFunction(double p, const RandomRegion& region) : p_(p), region_(region) {}
  absl::string_view name() const override { return kName; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    if (sink.Wants(0)) {
      const GradientSlot slot = sink.Slot(0);
      if (!slot.tensor.ok()) return;
      sink.Fail(Run(grads_out[0], Tensor(), slot.tensor, p_, region_, slot.accumulate));
    }
    if (sink.Wants(1)) sink.Add(1, grads_out[0]);
  }

 private:
  const double p_;
  const RandomRegion region_;
};

}  // namespace

Tensor Dropout(const Tensor& x, const Tensor& residual, double p, const RandomRegion& region) {
  absl::Status status = FirstError({&x});
  if (status.ok() && residual.valid()) status = residual.status();
  if (!status.ok()) return Tensor::Failed(status);
  const bool fits = x.shape().rank() >= 1 && IsFloat(x.dtype()) &&
                    x.num_elements() == x.shape().dim(0) * region.rows * region.cols &&
                    (!residual.valid() || (residual.shape() == x.shape() && residual.dtype() == x.dtype()));
  if (!fits || !(p >= 0 && p <= 1)) {
    return Invalid(kName, ": x ", Describe(x),
                   residual.valid() ? absl::StrCat(", residual ", Describe(residual)) : std::string(), ", p ",
                   p, ", region of ", region.rows, " x ", region.cols,
                   " a sample: a float x [samples, ...] of the region's size and p in [0, 1] are needed");
  }
  if (p == 0) return residual.valid() ? Add(residual, x) : x;
  Tensor y = NewLike(x);
  if (!y.ok()) return y;
  status = Run(x, residual, y, p, region, /*accumulate=*/false);
  if (!status.ok()) return Tensor::Failed(status);
  return RecordIfOnTape(std::move(y), {x, residual},
                        [&] { return std::make_unique<DropoutFunction>(p, region); });
}

}  // namespace ops
}  // namespace armature
