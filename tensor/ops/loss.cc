#include "armature/tensor/ops/loss.h"

#include <memory>
#include <utility>

#include "armature/tensor/ops/op_support.h"

namespace armature {
namespace ops {
namespace {

constexpr absl::string_view kName = "CrossEntropy";

class CrossEntropyFunction : public Function {
 public:
  CrossEntropyFunction(Tensor logits, Tensor targets, Tensor lse, int64_t classes, double smoothing)
      : logits_(std::move(logits)),
        targets_(std::move(targets)),
        lse_(std::move(lse)),
        classes_(classes),
        smoothing_(smoothing) {}

  absl::string_view name() const override { return kName; }
  absl::InlinedVector<Tensor, 4> saved() const override { return {logits_, targets_, lse_}; }

  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    Tensor dlogits = logits_.unique() ? logits_ : NewLike(logits_);
    if (!dlogits.ok()) return sink.Fail(dlogits.status());
    CrossEntropyBackwardArgs args;
    args.logits = logits_.data();
    args.targets = static_cast<const int32_t*>(targets_.data());
    args.lse = lse_.data();
    args.dloss = grads_out[0].data();
    args.dlogits = dlogits.data();
    args.rows = targets_.num_elements();
    args.classes = classes_;
    args.stride = logits_.shape().dim(-1);
    args.smoothing = smoothing_;
    args.dtype = logits_.dtype();
    const absl::Status done =
        Launch(dlogits.backend(), dlogits.backend().kernels().cross_entropy_backward, args, kName);
    if (!done.ok()) return sink.Fail(done);
    logits_ = Tensor();
    sink.Add(0, dlogits);
  }

 private:
  Tensor logits_;
  const Tensor targets_, lse_;
  const int64_t classes_;
  const double smoothing_;
};

}  // namespace

Tensor CrossEntropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  absl::Status status = FirstError({&logits, &targets});
  if (!status.ok()) return Tensor::Failed(status);
  const bool fits = logits.shape().rank() == targets.shape().rank() + 1 &&
                    logits.shape().dims().first(targets.shape().rank()) == targets.shape().dims() &&
                    targets.dtype() == DType::kI32 && IsFloat(logits.dtype());
  const int64_t stride = fits ? logits.shape().dim(-1) : 0;
  const int64_t classes = options.classes == 0 ? stride : options.classes;
  if (!fits || classes < 0 || classes > stride || !(options.smoothing >= 0 && options.smoothing < 1)) {
    return Invalid(kName, ": logits ", Describe(logits), ", targets ", Describe(targets), ", classes ",
                   classes, ", smoothing ", options.smoothing,
                   ": float logits [..., n], i32 targets [...], classes <= n and smoothing in [0, 1) ",
                   "are needed");
  }
  const DType sum_dtype = StatisticsDType(logits.dtype());
  Tensor losses = NewLike(logits, targets.shape(), sum_dtype);
  Tensor lse = NewLike(logits, targets.shape(), sum_dtype);
  Tensor loss = NewLike(logits, Shape(), sum_dtype);
  status = FirstError({&losses, &lse, &loss});
  if (!status.ok()) return Tensor::Failed(status);
  CrossEntropyArgs args;
  args.logits = logits.data();
  args.targets = static_cast<const int32_t*>(targets.data());
  args.losses = losses.data();
  args.lse = lse.data();
  args.rows = targets.num_elements();
  args.classes = classes;
  args.stride = stride;
  args.smoothing = options.smoothing;
  args.dtype = logits.dtype();
  Backend& backend = logits.backend();
  status = Launch(backend, backend.kernels().cross_entropy, args, kName);
  if (status.ok()) {
    SumArgs sum;
    sum.x = losses.data();
    sum.out = loss.data();
    sum.count = losses.num_elements();
    sum.dtype = sum_dtype;
    status = Launch(backend, backend.kernels().sum, sum, kName);
  }
  if (!status.ok()) return Tensor::Failed(status);
  return RecordIfOnTape(std::move(loss), {logits}, [&] {
    return std::make_unique<CrossEntropyFunction>(logits.Detach(), targets, lse, classes, options.smoothing);
  });
}

}  // namespace ops
}  // namespace armature
