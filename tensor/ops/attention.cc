#include "armature/tensor/ops/attention.h"

#include <cmath>
#include <memory>
#include <utility>

#include "armature/base/status_macros.h"
#include "armature/tensor/ops/op_support.h"

namespace armature {
namespace ops {
namespace {

constexpr absl::string_view kName = "Attention";

// Where q, k, v lie: three tensors, or three column ranges of one.
struct Inputs {
  Tensor q, k, v;  // equal when fused
  int64_t q_column = 0, k_column = 0, v_column = 0;

  static char* At(const Tensor& tensor, int64_t column) {
    return static_cast<char*>(tensor.data()) + column * SizeOf(tensor.dtype());
  }
};

class AttentionFunction : public Function {
 public:
  AttentionFunction(Inputs inputs, Tensor out, Tensor lse, Tensor q_segments, Tensor kv_segments,
                    AttentionShape shape)
      : in_(std::move(inputs)),
        out_(std::move(out)),
        lse_(std::move(lse)),
        q_segments_(std::move(q_segments)),
        kv_segments_(std::move(kv_segments)),
        shape_(shape) {}

  absl::string_view name() const override { return kName; }
  absl::InlinedVector<Tensor, 4> saved() const override {
    return {in_.q, in_.k, in_.v, out_, lse_, q_segments_, kv_segments_};
  }

  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    const bool fused = in_.q.storage() == in_.k.storage() && in_.q_column != in_.k_column;
    // The kernel overwrites, so that gradients go to tensors of their own and are handed on without a copy.
    const Tensor dq = NewLike(in_.q);
    const Tensor dk = fused ? dq : NewLike(in_.k);
    const Tensor dv = fused ? dq : NewLike(in_.v);
    const absl::Status allocated = FirstError({&dq, &dk, &dv});
    if (!allocated.ok()) return sink.Fail(allocated);
    AttentionBackwardArgs args;
    args.shape = shape_;
    args.q = Inputs::At(in_.q, in_.q_column);
    args.k = Inputs::At(in_.k, in_.k_column);
    args.v = Inputs::At(in_.v, in_.v_column);
    args.out = out_.data();
    args.lse = lse_.data();
    args.dout = grads_out[0].data();
    args.dq = Inputs::At(dq, in_.q_column);
    args.dk = Inputs::At(dk, in_.k_column);
    args.dv = Inputs::At(dv, in_.v_column);
    const absl::Status done = Launch(dq.backend(), dq.backend().kernels().attention_backward, args, kName);
    if (!done.ok()) return sink.Fail(done);
    sink.Add(0, dq);
    if (fused) return;
    sink.Add(1, dk);
    sink.Add(2, dv);
  }

 private:
  const Inputs in_;
  const Tensor out_, lse_, q_segments_, kv_segments_;
  const AttentionShape shape_;
};

// Segments, dropout and heads, into `shape`, whose extents are set.
absl::Status ApplyOptions(const AttentionOptions& options, AttentionShape& shape) {
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kName, ": dropout ", options.dropout, " is not in [0, 1]"));
  }
  if (options.q_segments.valid() != options.kv_segments.valid()) {
    return absl::InvalidArgumentError(absl::StrCat(kName, ": q_segments and kv_segments come together"));
  }
  if (options.q_segments.valid()) {
    ARMATURE_RETURN_IF_ERROR(FirstError({&options.q_segments, &options.kv_segments}));
    const Shape q{shape.batch, shape.q_len}, kv{shape.batch, shape.kv_len};
    if (options.q_segments.shape() != q || options.kv_segments.shape() != kv ||
        options.q_segments.dtype() != DType::kI32 || options.kv_segments.dtype() != DType::kI32) {
      return absl::InvalidArgumentError(absl::StrCat(kName, ": segments ", Describe(options.q_segments),
                                                     " and ", Describe(options.kv_segments), ", i32 ",
                                                     q.ToString(), " and ", kv.ToString(), " are needed"));
    }
    shape.q_segments = static_cast<const int32_t*>(options.q_segments.data());
    shape.kv_segments = static_cast<const int32_t*>(options.kv_segments.data());
  }
  shape.scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(shape.dim));
  shape.causal = options.causal;
  shape.dropout = options.dropout;
  shape.random_key = options.random_key;
  shape.first_sample = options.first_sample;
  shape.head_offset = options.head_offset;
  return absl::OkStatus();
}

Tensor Run(const Inputs& in, const AttentionShape& shape, const AttentionOptions& options,
           const Shape& out_shape) {
  Tensor out = NewLike(in.q, out_shape, in.q.dtype());
  Tensor lse = NewLike(in.q, {shape.batch, shape.heads, shape.q_len}, StatisticsDType(in.q.dtype()));
  const absl::Status allocated = FirstError({&out, &lse});
  if (!allocated.ok()) return Tensor::Failed(allocated);
  AttentionArgs args;
  args.shape = shape;
  args.q = Inputs::At(in.q, in.q_column);
  args.k = Inputs::At(in.k, in.k_column);
  args.v = Inputs::At(in.v, in.v_column);
  args.out = out.data();
  args.lse = lse.data();
  const absl::Status done = Launch(out.backend(), out.backend().kernels().attention, args, kName);
  if (!done.ok()) return Tensor::Failed(done);
  const Tensor result = out;
  return RecordIfOnTape(std::move(out), {in.q, in.k, in.v}, [&] {
    Inputs detached = in;
    detached.q = in.q.Detach();
    detached.k = in.k.Detach();
    detached.v = in.v.Detach();
    return std::make_unique<AttentionFunction>(detached, result, lse, options.q_segments, options.kv_segments,
                                               shape);
  });
}

int64_t KvHeads(const AttentionOptions& options) {
  return options.kv_heads > 0 ? options.kv_heads : options.heads;
}

}  // namespace

Tensor Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  absl::Status status = FirstError({&q, &k, &v});
  if (!status.ok()) return Tensor::Failed(status);
  const int64_t kv_heads = KvHeads(options);
  const bool ranks = q.shape().rank() == 4 && k.shape().rank() == 4 && v.shape() == k.shape();
  if (!ranks || q.shape().dim(0) != k.shape().dim(0) || q.shape().dim(3) != k.shape().dim(3) ||
      q.shape().dim(2) != options.heads || k.shape().dim(2) != kv_heads || options.heads < 1 ||
      options.heads % kv_heads != 0 || !IsFloat(q.dtype()) || k.dtype() != q.dtype() ||
      v.dtype() != q.dtype()) {
    return Invalid(
        kName, ": q ", Describe(q), ", k ", Describe(k), ", v ", Describe(v), ", ", options.heads, " heads, ",
        kv_heads, " key heads: q [batch, queries, heads, dim], k and v ",
        "[batch, keys, kv_heads, dim] of one float dtype and heads divisible by kv_heads are needed");
  }
  AttentionShape shape;
  shape.batch = q.shape().dim(0);
  shape.heads = options.heads;
  shape.kv_heads = kv_heads;
  shape.q_len = q.shape().dim(1);
  shape.kv_len = k.shape().dim(1);
  shape.dim = q.shape().dim(3);
  shape.q_stride = shape.out_stride = shape.heads * shape.dim;
  shape.k_stride = shape.v_stride = kv_heads * shape.dim;
  shape.dtype = q.dtype();
  status = ApplyOptions(options, shape);
  if (!status.ok()) return Tensor::Failed(status);
  Inputs in;
  in.q = q;
  in.k = k;
  in.v = v;
  return Run(in, shape, options, q.shape());
}

Tensor SelfAttention(const Tensor& qkv, const AttentionOptions& options) {
  if (!qkv.ok()) return Tensor::Failed(qkv.status());
  const int64_t kv_heads = KvHeads(options), parts = options.heads + 2 * kv_heads;
  if (qkv.shape().rank() != 3 || options.heads < 1 || options.heads % kv_heads != 0 ||
      qkv.shape().dim(2) % parts != 0 || !IsFloat(qkv.dtype())) {
    return Invalid(
        "SelfAttention: qkv ", Describe(qkv), " with ", options.heads, " heads and ", kv_heads,
        " key heads: [batch, positions, (heads + 2 kv_heads) * dim] and heads divisible by kv_heads needed");
  }
  AttentionShape shape;
  shape.batch = qkv.shape().dim(0);
  shape.heads = options.heads;
  shape.kv_heads = kv_heads;
  shape.q_len = shape.kv_len = qkv.shape().dim(1);
  shape.dim = qkv.shape().dim(2) / parts;
  shape.q_stride = shape.k_stride = shape.v_stride = qkv.shape().dim(2);
  shape.out_stride = shape.heads * shape.dim;
  shape.dtype = qkv.dtype();
  const absl::Status status = ApplyOptions(options, shape);
  if (!status.ok()) return Tensor::Failed(status);
  Inputs in;
  in.q = in.k = in.v = qkv;
  in.k_column = shape.heads * shape.dim;
  in.v_column = in.k_column + kv_heads * shape.dim;
  return Run(in, shape, options, qkv.shape().WithDim(2, shape.out_stride));
}

}  // namespace ops
}  // namespace armature
