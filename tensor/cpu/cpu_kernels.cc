#include "armature/tensor/cpu/cpu_kernels.h"

#include "armature/tensor/cpu/activation_kernels.h"
#include "armature/tensor/cpu/attention_kernels.h"
#include "armature/tensor/cpu/cast_kernels.h"
#include "armature/tensor/cpu/column_sum_kernels.h"
#include "armature/tensor/cpu/copy_kernels.h"
#include "armature/tensor/cpu/cross_entropy_kernels.h"
#include "armature/tensor/cpu/dropout_kernels.h"
#include "armature/tensor/cpu/elementwise_kernels.h"
#include "armature/tensor/cpu/embedding_kernels.h"
#include "armature/tensor/cpu/matmul_kernels.h"
#include "armature/tensor/cpu/norm_kernels.h"
#include "armature/tensor/cpu/random_fill_kernels.h"
#include "armature/tensor/cpu/softmax_kernels.h"
#include "armature/tensor/reference/reference_kernels.h"

namespace armature {
namespace {

// Whether there is a vector kernel for the call's dtypes: as a rule for f32 only.
template <typename Args>
bool HasVectorKernel(const Args& args) {
  return args.dtype == DType::kF32;
}
bool HasVectorKernel(const MatMulArgs& args) {
  return args.dtype == DType::kF32 && args.c_dtype == DType::kF32;
}
bool HasVectorKernel(const AttentionArgs& args) { return args.shape.dtype == DType::kF32; }
bool HasVectorKernel(const AttentionBackwardArgs& args) { return args.shape.dtype == DType::kF32; }
bool HasVectorKernel(const ColumnSumArgs& args) {
  return args.dtype == DType::kF32 && args.out_dtype == DType::kF32;
}
bool HasVectorKernel(const NormBackwardArgs& args) {
  return args.dtype == DType::kF32 && args.parameter_grad_dtype == DType::kF32;
}
bool HasVectorKernel(const EmbeddingBackwardArgs& args) {
  return args.dtype == DType::kF32 && args.table_grad_dtype == DType::kF32;
}
bool HasVectorKernel(const CastArgs& args) { return cpu::CanCast(args); }
bool HasVectorKernel(const FillArgs&) { return true; }

// An entry that runs `kVector` where it can, and the reference's entry `kEntry` elsewhere.
template <typename Args, absl::Status (*KernelTable::*kEntry)(Stream&, const Args&),
          absl::Status (*kVector)(Stream&, const Args&)>
absl::Status VectorOrReference(Stream& stream, const Args& args) {
  return HasVectorKernel(args) ? kVector(stream, args) : (ReferenceKernels().*kEntry)(stream, args);
}

void AddRowKernels(KernelTable& kernels) {
  kernels.matmul = VectorOrReference<MatMulArgs, &KernelTable::matmul, cpu::MatMul>;
  kernels.attention = VectorOrReference<AttentionArgs, &KernelTable::attention, cpu::Attention>;
  kernels.attention_backward =
      VectorOrReference<AttentionBackwardArgs, &KernelTable::attention_backward, cpu::AttentionBackward>;
  kernels.column_sum = VectorOrReference<ColumnSumArgs, &KernelTable::column_sum, cpu::ColumnSum>;
  kernels.layer_norm = VectorOrReference<NormArgs, &KernelTable::layer_norm, cpu::LayerNorm>;
  kernels.layer_norm_backward =
      VectorOrReference<NormBackwardArgs, &KernelTable::layer_norm_backward, cpu::NormBackward>;
  kernels.rms_norm = VectorOrReference<NormArgs, &KernelTable::rms_norm, cpu::RmsNorm>;
  kernels.rms_norm_backward =
      VectorOrReference<NormBackwardArgs, &KernelTable::rms_norm_backward, cpu::NormBackward>;
  kernels.softmax = VectorOrReference<SoftmaxArgs, &KernelTable::softmax, cpu::Softmax>;
  kernels.softmax_backward =
      VectorOrReference<SoftmaxBackwardArgs, &KernelTable::softmax_backward, cpu::SoftmaxBackward>;
  kernels.embedding = VectorOrReference<EmbeddingArgs, &KernelTable::embedding, cpu::Embedding>;
  kernels.embedding_backward =
      VectorOrReference<EmbeddingBackwardArgs, &KernelTable::embedding_backward, cpu::EmbeddingBackward>;
  kernels.cross_entropy = VectorOrReference<CrossEntropyArgs, &KernelTable::cross_entropy, cpu::CrossEntropy>;
  kernels.cross_entropy_part =
      VectorOrReference<CrossEntropyPartArgs, &KernelTable::cross_entropy_part, cpu::CrossEntropyPart>;
  kernels.cross_entropy_backward =
      VectorOrReference<CrossEntropyBackwardArgs, &KernelTable::cross_entropy_backward,
                        cpu::CrossEntropyBackward>;
}

void AddElementKernels(KernelTable& kernels) {
  kernels.bias_activation =
      VectorOrReference<BiasActivationArgs, &KernelTable::bias_activation, cpu::BiasActivation>;
  kernels.activation_backward =
      VectorOrReference<ActivationBackwardArgs, &KernelTable::activation_backward, cpu::ActivationBackward>;
  kernels.dropout = VectorOrReference<DropoutArgs, &KernelTable::dropout, cpu::Dropout>;
  kernels.axpby = VectorOrReference<AxpbyArgs, &KernelTable::axpby, cpu::Axpby>;
  kernels.multiply = VectorOrReference<MultiplyArgs, &KernelTable::multiply, cpu::Multiply>;
  kernels.sum = VectorOrReference<SumArgs, &KernelTable::sum, cpu::Sum>;
  kernels.copy_blocks = cpu::CopyBlocks;
  kernels.cast = VectorOrReference<CastArgs, &KernelTable::cast, cpu::Cast>;
  kernels.fill = VectorOrReference<FillArgs, &KernelTable::fill, cpu::Fill>;
  kernels.random_fill = VectorOrReference<RandomFillArgs, &KernelTable::random_fill, cpu::RandomFill>;
}

}  // namespace

const KernelTable& CpuKernels() {
  static const KernelTable table = [] {
    KernelTable kernels = ReferenceKernels();
    AddRowKernels(kernels);
    AddElementKernels(kernels);
    return kernels;
  }();
  return table;
}

}  // namespace armature
