#include "armature/tensor/ops/linear.h"

#include <memory>
#include <utility>

#include "armature/tensor/ops/op_support.h"

namespace armature {
namespace ops {
namespace {

constexpr absl::string_view kName = "Linear";

int64_t Rows(const Tensor& x) { return x.shape().num_rows(); }

// dw (+)= x^T dpre, in the layout of w.
void WeightGradient(const Tensor& x, const Tensor& dpre, bool out_in, GradientSink& sink) {
  const GradientSlot slot = sink.WideSlot(1);
  if (!slot.tensor.ok()) return;
  const int64_t in = x.shape().dim(-1), out = dpre.shape().dim(-1);
  MatMulArgs args;
  args.a = out_in ? dpre.data() : x.data();
  args.b = out_in ? x.data() : dpre.data();
  args.c = slot.tensor.data();
  args.m = out_in ? out : in;
  args.n = out_in ? in : out;
  args.k = Rows(x);
  args.transpose_a = true;
  args.lda = args.m;
  args.ldb = args.n;
  args.ldc = args.n;
  args.dtype = x.dtype();
  args.c_dtype = slot.tensor.dtype();
  args.accumulate = slot.accumulate;
  sink.Fail(Launch(x.backend(), x.backend().kernels().matmul, args, kName));
}

class LinearFunction : public Function {
 public:
  LinearFunction(Tensor x, Tensor w, Tensor pre, const LinearOptions& options)
      : x_(std::move(x)), w_(std::move(w)), pre_(std::move(pre)), options_(options) {}

  absl::string_view name() const override { return kName; }
  absl::InlinedVector<Tensor, 4> saved() const override { return {x_, w_, pre_}; }

  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    const Tensor dpre = PreActivationGradient(grads_out[0]);
    if (!dpre.ok()) return sink.Fail(dpre.status());
    if (sink.Wants(2)) BiasGradient(dpre, sink);
    if (sink.Wants(1)) {
      if (sink.defer_weight_gradients()) {
        sink.Defer([x = x_, dpre, out_in = options_.weight_is_out_in](GradientSink& later) {
          WeightGradient(x, dpre, out_in, later);
        });
      } else {
        WeightGradient(x_, dpre, options_.weight_is_out_in, sink);
      }
    }
    if (sink.Wants(0)) InputGradient(dpre, sink);
  }

 private:
  Tensor PreActivationGradient(const Tensor& dy) {
    if (options_.activation == Activation::kNone) return dy;
    const Tensor dpre = dy.unique() ? dy : NewLike(dy);
    if (!dpre.ok()) return dpre;
    ActivationBackwardArgs args;
    args.pre = pre_.data();
    args.dy = dy.data();
    args.dx = dpre.data();
    args.count = dy.num_elements();
    args.activation = options_.activation;
    args.dtype = dy.dtype();
    const absl::Status done = Launch(dy.backend(), dy.backend().kernels().activation_backward, args, kName);
    pre_ = Tensor();
    return done.ok() ? dpre : Tensor::Failed(done);
  }

  void BiasGradient(const Tensor& dpre, GradientSink& sink) {
    const GradientSlot slot = sink.WideSlot(2);
    if (!slot.tensor.ok()) return;
    ColumnSumArgs args;
    args.x = dpre.data();
    args.out = slot.tensor.data();
    args.rows = Rows(dpre);
    args.cols = dpre.shape().dim(-1);
    args.dtype = dpre.dtype();
    args.out_dtype = slot.tensor.dtype();
    args.accumulate = slot.accumulate;
    sink.Fail(Launch(dpre.backend(), dpre.backend().kernels().column_sum, args, kName));
  }

  // dx (+)= dpre w^T.
  void InputGradient(const Tensor& dpre, GradientSink& sink) {
    const GradientSlot slot = sink.WideSlot(0);
    if (!slot.tensor.ok()) return;
    MatMulArgs args;
    args.a = dpre.data();
    args.b = w_.data();
    args.c = slot.tensor.data();
    args.m = Rows(x_);
    args.n = x_.shape().dim(-1);
    args.k = dpre.shape().dim(-1);
    args.transpose_b = !options_.weight_is_out_in;
    args.lda = args.k;
    args.ldb = w_.shape().dim(-1);
    args.ldc = args.n;
    args.dtype = dpre.dtype();
    args.c_dtype = slot.tensor.dtype();
    args.accumulate = slot.accumulate;
    sink.Fail(Launch(dpre.backend(), dpre.backend().kernels().matmul, args, kName));
  }

  Tensor x_, w_, pre_;
  const LinearOptions options_;
};

absl::Status Check(const Tensor& x, const Tensor& w, const Tensor& b, const LinearOptions& options) {
  const bool has_bias = b.valid();
  if (x.shape().rank() >= 1 && w.shape().rank() == 2) {
    const int64_t in = w.shape().dim(options.weight_is_out_in ? 1 : 0);
    const int64_t out = w.shape().dim(options.weight_is_out_in ? 0 : 1);
    if (x.shape().dim(-1) == in && (!has_bias || b.shape() == Shape{out}) && IsFloat(x.dtype()) &&
        w.dtype() == x.dtype() && (!has_bias || b.dtype() == x.dtype())) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      kName, ": x ", Describe(x), ", w ", Describe(w),
      has_bias ? absl::StrCat(", b ", Describe(b)) : std::string(), " do not fit: x [..., in], w ",
      options.weight_is_out_in ? "[out, in]" : "[in, out]", ", b [out] of one float dtype are needed"));
}

}  // namespace

Tensor Linear(const Tensor& x, const Tensor& w, const Tensor& b, const LinearOptions& options) {
  absl::Status status = FirstError({&x, &w});
  if (status.ok() && b.valid()) status = b.status();
  if (status.ok()) status = Check(x, w, b, options);
  if (!status.ok()) return Tensor::Failed(status);

  const int64_t out = w.shape().dim(options.weight_is_out_in ? 0 : 1);
  Tensor y = NewLike(x, x.shape().WithDim(-1, out), x.dtype());
  if (!y.ok()) return y;
  Backend& backend = x.backend();
  MatMulArgs product;
  product.a = x.data();
  product.b = w.data();
  product.c = y.data();
  product.m = x.shape().dim(-1) == 0 ? y.shape().num_rows() : Rows(x);
  product.n = out;
  product.k = x.shape().dim(-1);
  product.transpose_b = options.weight_is_out_in;
  product.lda = product.k;
  product.ldb = w.shape().dim(-1);
  product.ldc = out;
  product.dtype = x.dtype();
  product.c_dtype = x.dtype();
  status = Launch(backend, backend.kernels().matmul, product, kName);
  if (!status.ok()) return Tensor::Failed(status);

  Tensor pre;
  if (options.activation != Activation::kNone || b.valid()) {
    const bool keep_pre = options.activation != Activation::kNone &&
                          (x.tape() != nullptr || w.tape() != nullptr || b.tape() != nullptr);
    BiasActivationArgs epilogue;
    epilogue.x = y.data();
    if (keep_pre) {
      // The product becomes the saved x w + b, and the result gets memory of its own.
      pre = y;
      y = NewLike(pre);
      if (!y.ok()) return y;
      epilogue.pre = pre.data();
    }
    epilogue.y = y.data();
    epilogue.bias = b.valid() ? b.data() : nullptr;
    epilogue.rows = product.m;
    epilogue.cols = out;
    epilogue.activation = options.activation;
    epilogue.dtype = y.dtype();
    status = Launch(backend, backend.kernels().bias_activation, epilogue, kName);
    if (!status.ok()) return Tensor::Failed(status);
  }
  return RecordIfOnTape(std::move(y), {x, w, b}, [&] {
    return std::make_unique<LinearFunction>(x.Detach(), w.Detach(), pre, options);
  });
}

}  // namespace ops
}  // namespace armature
