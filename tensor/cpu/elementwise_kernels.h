// axpby, products, sums and fills of f32; one pass over memory each.
#ifndef ARMATURE_TENSOR_CPU_ELEMENTWISE_KERNELS_H_
#define ARMATURE_TENSOR_CPU_ELEMENTWISE_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

absl::Status Axpby(Stream& stream, const AxpbyArgs& args);
absl::Status Multiply(Stream& stream, const MultiplyArgs& args);

// Blocks of 4096 elements are summed in f32, and the blocks' sums in f64: the order depends on the count
// only.
absl::Status Sum(Stream& stream, const SumArgs& args);

// Every float dtype.
absl::Status Fill(Stream& stream, const FillArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_ELEMENTWISE_KERNELS_H_
