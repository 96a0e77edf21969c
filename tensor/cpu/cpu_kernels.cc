#include "armature/tensor/cpu/cpu_kernels.h"

#include "armature/tensor/cpu/activation_kernels.h"
#include "armature/tensor/cpu/column_sum_kernels.h"
#include "armature/tensor/cpu/norm_kernels.h"
#include "armature/tensor/reference/reference_kernels.h"

namespace armature {
namespace {

// Whether the vector kernels, which know f32 only, can do it.
template <typename Args>
bool IsF32(const Args& args) {
  return args.dtype == DType::kF32;
}
bool IsF32(const ColumnSumArgs& args) { return args.dtype == DType::kF32 && args.out_dtype == DType::kF32; }
bool IsF32(const NormBackwardArgs& args) {
  return args.dtype == DType::kF32 && args.parameter_grad_dtype == DType::kF32;
}

// An entry that runs `kVector` on f32, and the reference's entry `kEntry` on everything else.
template <typename Args, absl::Status (*KernelTable::*kEntry)(Stream&, const Args&),
          absl::Status (*kVector)(Stream&, const Args&)>
absl::Status VectorOrReference(Stream& stream, const Args& args) {
  return IsF32(args) ? kVector(stream, args) : (ReferenceKernels().*kEntry)(stream, args);
}

}  // namespace

const KernelTable& CpuKernels() {
  static const KernelTable table = [] {
    KernelTable kernels = ReferenceKernels();
    kernels.bias_activation =
        VectorOrReference<BiasActivationArgs, &KernelTable::bias_activation, cpu::BiasActivation>;
    kernels.activation_backward =
        VectorOrReference<ActivationBackwardArgs, &KernelTable::activation_backward, cpu::ActivationBackward>;
    kernels.column_sum = VectorOrReference<ColumnSumArgs, &KernelTable::column_sum, cpu::ColumnSum>;
    kernels.layer_norm = VectorOrReference<NormArgs, &KernelTable::layer_norm, cpu::LayerNorm>;
    kernels.layer_norm_backward =
        VectorOrReference<NormBackwardArgs, &KernelTable::layer_norm_backward, cpu::NormBackward>;
    kernels.rms_norm = VectorOrReference<NormArgs, &KernelTable::rms_norm, cpu::RmsNorm>;
    kernels.rms_norm_backward =
        VectorOrReference<NormBackwardArgs, &KernelTable::rms_norm_backward, cpu::NormBackward>;
    return kernels;
  }();
  return table;
}

}  // namespace armature
