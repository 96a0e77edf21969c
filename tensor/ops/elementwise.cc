#include "armature/tensor/ops/elementwise.h"

#include <memory>
#include <utility>

#include "armature/tensor/ops/op_support.h"

namespace armature {
namespace ops {
namespace {

absl::Status CheckPair(absl::string_view name, const Tensor& a, const Tensor& b, bool shapes_fit) {
  const absl::Status status = FirstError({&a, &b});
  if (!status.ok()) return status;
  if (shapes_fit && a.dtype() == b.dtype() && IsFloat(a.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", Describe(a), " and ", Describe(b), " don't fit"));
}

absl::Status CheckFloat(absl::string_view name, const Tensor& x) {
  if (!x.ok()) return x.status();
  if (IsFloat(x.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": x ", Describe(x), ": a float dtype is needed"));
}

class AddFunction : public Function {
 public:
  absl::string_view name() const override { return "Add"; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    sink.Add(0, grads_out[0]);
    sink.Add(1, grads_out[0]);
  }
};

class AddBroadcastFunction : public Function {
 public:
  absl::string_view name() const override { return "AddBroadcast"; }
  explicit AddBroadcastFunction(int64_t cols) : cols_(cols) {}
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    const Tensor& dy = grads_out[0];
    if (sink.Wants(1)) {
      const GradientSlot slot = sink.WideSlot(1);
      if (!slot.tensor.ok()) return;
      ColumnSumArgs args;
      args.x = dy.data();
      args.out = slot.tensor.data();
      args.rows = cols_ == 0 ? 0 : dy.num_elements() / cols_;
      args.cols = cols_;
      args.dtype = dy.dtype();
      args.out_dtype = slot.tensor.dtype();
      args.accumulate = slot.accumulate;
      sink.Fail(Launch(dy.backend(), dy.backend().kernels().column_sum, args, name()));
    }
    sink.Add(0, dy);
  }

 private:
  const int64_t cols_;
};

absl::Status Axpby(const Tensor& a, const Tensor& b, const Tensor& y, double alpha, absl::string_view name) {
  AxpbyArgs args;
  args.a = a.data();
  args.b = b.ok() ? b.data() : nullptr;
  args.y = y.data();
  args.count = a.num_elements();
  args.alpha = alpha;
  args.dtype = a.dtype();
  return Launch(a.backend(), a.backend().kernels().axpby, args, name);
}

class ScaleFunction : public Function {
 public:
  explicit ScaleFunction(double factor) : factor_(factor) {}
  absl::string_view name() const override { return "Scale"; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    const Tensor dx = NewLike(grads_out[0]);
    if (!dx.ok()) return sink.Fail(dx.status());
    sink.Fail(Axpby(grads_out[0], Tensor(), dx, factor_, name()));
    sink.Add(0, dx);
  }

 private:
  const double factor_;
};

class MultiplyFunction : public Function {
 public:
  MultiplyFunction(Tensor a, Tensor b) : in_{std::move(a), std::move(b)} {}
  absl::string_view name() const override { return "Multiply"; }
  absl::InlinedVector<Tensor, 4> saved() const override { return {in_[0], in_[1]}; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    for (int i = 0; i < 2; ++i) {
      if (!sink.Wants(i)) continue;
      const GradientSlot slot = sink.Slot(i);
      if (!slot.tensor.ok()) return;
      MultiplyArgs args;
      args.a = grads_out[0].data();
      args.b = in_[1 - i].data();
      args.y = slot.tensor.data();
      args.count = grads_out[0].num_elements();
      args.dtype = grads_out[0].dtype();
      args.accumulate = slot.accumulate;
      sink.Fail(Launch(in_[i].backend(), in_[i].backend().kernels().multiply, args, name()));
    }
  }

 private:
  const Tensor in_[2];
};

class SumFunction : public Function {
 public:
  SumFunction(Backend& backend, const Shape& shape, DType dtype)
      : backend_(backend), shape_(shape), dtype_(dtype) {}
  absl::string_view name() const override { return "Sum"; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    const Tensor scalar = Cast(grads_out[0].Detach(), dtype_);
    const Tensor dx = Tensor::Empty(backend_, shape_, dtype_, MemoryCategory::kActivations);
    const absl::Status ready = FirstError({&scalar, &dx});
    if (!ready.ok()) return sink.Fail(ready);
    FillArgs ones;
    ones.y = dx.data();
    ones.count = dx.num_elements();
    ones.value = 1;
    ones.dtype = dtype_;
    sink.Fail(Launch(backend_, backend_.kernels().fill, ones, name()));
    MultiplyArgs args;
    args.a = dx.data();
    args.b = scalar.data();
    args.y = dx.data();
    args.count = dx.num_elements();
    args.scalar_b = true;
    args.dtype = dtype_;
    sink.Fail(Launch(backend_, backend_.kernels().multiply, args, name()));
    sink.Add(0, dx);
  }

 private:
  Backend& backend_;
  const Shape shape_;
  const DType dtype_;
};

class SliceFunction : public Function {
 public:
  SliceFunction(const Shape& shape, int64_t begin, int64_t end) : shape_(shape), begin_(begin), end_(end) {}
  absl::string_view name() const override { return "Slice"; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    const GradientSlot slot = sink.WideSlot(0);
    if (!slot.tensor.ok()) return;
    const Tensor whole = slot.tensor.Detach().Reshape(shape_);
    if (!slot.accumulate) {
      FillArgs clear;
      clear.y = whole.data();
      clear.count = whole.num_elements();
      clear.dtype = whole.dtype();
      sink.Fail(Launch(whole.backend(), whole.backend().kernels().fill, clear, name()));
    }
    const Tensor part = whole.Slice(begin_, end_);
    const Tensor gradient = Cast(grads_out[0].Detach(), part.dtype());
    const absl::Status ready = FirstError({&part, &gradient});
    if (!ready.ok()) return sink.Fail(ready);
    sink.Fail(Axpby(part, gradient, part, 1, name()));
  }

 private:
  const Shape shape_;
  const int64_t begin_, end_;
};

class CastFunction : public Function {
 public:
  explicit CastFunction(DType from) : from_(from) {}
  absl::string_view name() const override { return "Cast"; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    sink.Add(0, Cast(grads_out[0].Detach(), from_));
  }

 private:
  const DType from_;
};

}  // namespace

Tensor Add(const Tensor& a, const Tensor& b) {
  absl::Status status = CheckPair("Add", a, b, a.shape() == b.shape());
  if (!status.ok()) return Tensor::Failed(status);
  Tensor y = NewLike(a);
  if (!y.ok()) return y;
  status = Axpby(a, b, y, 1, "Add");
  if (!status.ok()) return Tensor::Failed(status);
  return RecordIfOnTape(std::move(y), {a, b}, [] { return std::make_unique<AddFunction>(); });
}

Tensor AddBroadcast(const Tensor& x, const Tensor& b) {
  const int extra = x.shape().rank() - b.shape().rank();
  const bool fits = extra >= 0 && x.shape().dims().subspan(extra) == b.shape().dims();
  absl::Status status = CheckPair("AddBroadcast", x, b, fits);
  if (!status.ok()) return Tensor::Failed(status);
  Tensor y = NewLike(x);
  if (!y.ok()) return y;
  BiasActivationArgs args;
  args.x = x.data();
  args.bias = b.data();
  args.y = y.data();
  args.cols = b.num_elements();
  args.rows = args.cols == 0 ? 0 : x.num_elements() / args.cols;
  args.dtype = x.dtype();
  status = Launch(x.backend(), x.backend().kernels().bias_activation, args, "AddBroadcast");
  if (!status.ok()) return Tensor::Failed(status);
  return RecordIfOnTape(std::move(y), {x, b},
                        [&] { return std::make_unique<AddBroadcastFunction>(args.cols); });
}

Tensor Scale(const Tensor& x, double factor) {
  absl::Status status = CheckFloat("Scale", x);
  if (!status.ok()) return Tensor::Failed(status);
  Tensor y = NewLike(x);
  if (!y.ok()) return y;
  status = Axpby(x, Tensor(), y, factor, "Scale");
  if (!status.ok()) return Tensor::Failed(status);
  return RecordIfOnTape(std::move(y), {x}, [&] { return std::make_unique<ScaleFunction>(factor); });
}

Tensor Multiply(const Tensor& a, const Tensor& b) {
  absl::Status status = CheckPair("Multiply", a, b, a.shape() == b.shape());
  if (!status.ok()) return Tensor::Failed(status);
  Tensor y = NewLike(a);
  if (!y.ok()) return y;
  MultiplyArgs args;
  args.a = a.data();
  args.b = b.data();
  args.y = y.data();
  args.count = a.num_elements();
  args.dtype = a.dtype();
  status = Launch(a.backend(), a.backend().kernels().multiply, args, "Multiply");
  if (!status.ok()) return Tensor::Failed(status);
  return RecordIfOnTape(std::move(y), {a, b},
                        [&] { return std::make_unique<MultiplyFunction>(a.Detach(), b.Detach()); });
}

Tensor Sum(const Tensor& x) {
  absl::Status status = CheckFloat("Sum", x);
  if (!status.ok()) return Tensor::Failed(status);
  Tensor y = NewLike(x, Shape(), StatisticsDType(x.dtype()));
  if (!y.ok()) return y;
  SumArgs args;
  args.x = x.data();
  args.out = y.data();
  args.count = x.num_elements();
  args.dtype = x.dtype();
  status = Launch(x.backend(), x.backend().kernels().sum, args, "Sum");
  if (!status.ok()) return Tensor::Failed(status);
  return RecordIfOnTape(std::move(y), {x},
                        [&] { return std::make_unique<SumFunction>(x.backend(), x.shape(), x.dtype()); });
}

Tensor Slice(const Tensor& x, int64_t begin, int64_t end) {
  if (!x.ok()) return Tensor::Failed(x.status());
  Tensor y = x.Detach().Slice(begin, end);
  return RecordIfOnTape(std::move(y), {x},
                        [&] { return std::make_unique<SliceFunction>(x.shape(), begin, end); });
}

Tensor Cast(const Tensor& x, DType dtype) {
  if (!x.ok()) return Tensor::Failed(x.status());
  if (x.dtype() == dtype) return x;
  if (!IsFloat(x.dtype()) || !IsFloat(dtype)) {
    return Invalid("Cast: x ", Describe(x), " to ", Name(dtype), ": both must be float dtypes");
  }
  Tensor y = NewLike(x, x.shape(), dtype);
  if (!y.ok()) return y;
  CastArgs args;
  args.x = x.data();
  args.y = y.data();
  args.count = x.num_elements();
  args.from = x.dtype();
  args.to = dtype;
  const absl::Status status = Launch(x.backend(), x.backend().kernels().cast, args, "Cast");
  if (!status.ok()) return Tensor::Failed(status);
  return RecordIfOnTape(std::move(y), {x}, [&] { return std::make_unique<CastFunction>(x.dtype()); });
}

}  // namespace ops
}  // namespace armature
