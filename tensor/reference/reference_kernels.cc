#include "armature/tensor/reference/reference_kernels.h"

#include "absl/strings/str_cat.h"
#include "armature/tensor/float16.h"
#include "armature/tensor/reference/activation.h"
#include "armature/tensor/reference/attention.h"
#include "armature/tensor/reference/dropout.h"
#include "armature/tensor/reference/elementwise.h"
#include "armature/tensor/reference/embedding.h"
#include "armature/tensor/reference/loss.h"
#include "armature/tensor/reference/matmul.h"
#include "armature/tensor/reference/norm.h"
#include "armature/tensor/reference/softmax.h"

namespace armature {
namespace {

// Calls body(zero of the stored type): `decltype(zero)` is the kernel's template argument.
template <typename Body>
absl::Status With(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      body(float{});
      return absl::OkStatus();
    case DType::kF64:
      body(double{});
      return absl::OkStatus();
    case DType::kF16:
      body(Float16{});
      return absl::OkStatus();
    case DType::kBF16:
      body(BFloat16{});
      return absl::OkStatus();
    default:
      return absl::InternalError(absl::StrCat("a kernel was called on ", Name(dtype)));
  }
}

// The same for two dtypes.
template <typename Body>
absl::Status With(DType first, DType second, const Body& body) {
  absl::Status inner;
  const absl::Status outer = With(first, [&](auto a) { inner = With(second, [&](auto b) { body(a, b); }); });
  return outer.ok() ? inner : outer;
}

absl::Status MatMul(Stream&, const MatMulArgs& args) {
  return With(args.dtype, args.c_dtype,
              [&](auto in, auto out) { reference::MatMul<decltype(in), decltype(out)>(args); });
}
absl::Status BiasActivation(Stream&, const BiasActivationArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::BiasActivation<decltype(zero)>(args); });
}
absl::Status ActivationBackward(Stream&, const ActivationBackwardArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::ActivationBackward<decltype(zero)>(args); });
}
absl::Status ColumnSum(Stream&, const ColumnSumArgs& args) {
  return With(args.dtype, args.out_dtype,
              [&](auto in, auto out) { reference::ColumnSum<decltype(in), decltype(out)>(args); });
}
absl::Status LayerNorm(Stream&, const NormArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::LayerNorm<decltype(zero)>(args); });
}
absl::Status RmsNorm(Stream&, const NormArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::RmsNorm<decltype(zero)>(args); });
}
absl::Status NormBackward(Stream&, const NormBackwardArgs& args) {
  return With(args.dtype, args.parameter_grad_dtype,
              [&](auto data, auto grad) { reference::NormBackward<decltype(data), decltype(grad)>(args); });
}
absl::Status Softmax(Stream&, const SoftmaxArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::Softmax<decltype(zero)>(args); });
}
absl::Status SoftmaxBackward(Stream&, const SoftmaxBackwardArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::SoftmaxBackward<decltype(zero)>(args); });
}
absl::Status Attention(Stream&, const AttentionArgs& args) {
  return With(args.shape.dtype, [&](auto zero) { reference::Attention<decltype(zero)>(args); });
}
absl::Status AttentionBackward(Stream&, const AttentionBackwardArgs& args) {
  return With(args.shape.dtype, [&](auto zero) { reference::AttentionBackward<decltype(zero)>(args); });
}
absl::Status Embedding(Stream&, const EmbeddingArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::Embedding<decltype(zero)>(args); });
}
absl::Status EmbeddingBackward(Stream&, const EmbeddingBackwardArgs& args) {
  return With(args.dtype, args.table_grad_dtype, [&](auto data, auto grad) {
    reference::EmbeddingBackward<decltype(data), decltype(grad)>(args);
  });
}
absl::Status Dropout(Stream&, const DropoutArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::Dropout<decltype(zero)>(args); });
}
absl::Status Axpby(Stream&, const AxpbyArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::Axpby<decltype(zero)>(args); });
}
absl::Status Multiply(Stream&, const MultiplyArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::Multiply<decltype(zero)>(args); });
}
absl::Status Sum(Stream&, const SumArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::Sum<decltype(zero)>(args); });
}
absl::Status CrossEntropy(Stream&, const CrossEntropyArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::CrossEntropy<decltype(zero)>(args); });
}
absl::Status CrossEntropyPart(Stream&, const CrossEntropyPartArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::CrossEntropyPart<decltype(zero)>(args); });
}
absl::Status CrossEntropyJoin(Stream&, const CrossEntropyJoinArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::CrossEntropyJoin<decltype(zero)>(args); });
}
absl::Status CrossEntropyBackward(Stream&, const CrossEntropyBackwardArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::CrossEntropyBackward<decltype(zero)>(args); });
}
absl::Status CopyBlocks(Stream&, const CopyBlocksArgs& args) {
  switch (SizeOf(args.dtype)) {
    case 1:
      reference::CopyBlocks<uint8_t>(args);
      break;
    case 2:
      reference::CopyBlocks<uint16_t>(args);
      break;
    case 4:
      reference::CopyBlocks<uint32_t>(args);
      break;
    default:
      reference::CopyBlocks<uint64_t>(args);
  }
  return absl::OkStatus();
}
absl::Status Cast(Stream&, const CastArgs& args) {
  return With(args.from, args.to,
              [&](auto from, auto to) { reference::Cast<decltype(from), decltype(to)>(args); });
}
absl::Status Fill(Stream&, const FillArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::Fill<decltype(zero)>(args); });
}
absl::Status RandomFill(Stream&, const RandomFillArgs& args) {
  return With(args.dtype, [&](auto zero) { reference::RandomFill<decltype(zero)>(args); });
}

}  // namespace

const KernelTable& ReferenceKernels() {
  static const KernelTable table = [] {
    KernelTable kernels;
    kernels.matmul = MatMul;
    kernels.bias_activation = BiasActivation;
    kernels.activation_backward = ActivationBackward;
    kernels.column_sum = ColumnSum;
    kernels.layer_norm = LayerNorm;
    kernels.layer_norm_backward = NormBackward;
    kernels.rms_norm = RmsNorm;
    kernels.rms_norm_backward = NormBackward;
    kernels.softmax = Softmax;
    kernels.softmax_backward = SoftmaxBackward;
    kernels.attention = Attention;
    kernels.attention_backward = AttentionBackward;
    kernels.embedding = Embedding;
    kernels.embedding_backward = EmbeddingBackward;
    kernels.dropout = Dropout;
    kernels.axpby = Axpby;
    kernels.multiply = Multiply;
    kernels.sum = Sum;
    kernels.cross_entropy = CrossEntropy;
    kernels.cross_entropy_part = CrossEntropyPart;
    kernels.cross_entropy_join = CrossEntropyJoin;
    kernels.cross_entropy_backward = CrossEntropyBackward;
    kernels.copy_blocks = CopyBlocks;
    kernels.cast = Cast;
    kernels.fill = Fill;
    kernels.random_fill = RandomFill;
    return kernels;
  }();
  return table;
}

}  // namespace armature
