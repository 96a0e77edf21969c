// Random f32 numbers with the values of tensor/random.h: uniform ones bit for bit, normal ones computed in
// f64 and rounded, so that they differ at most in the last bit.
#ifndef ARMATURE_TENSOR_CPU_RANDOM_FILL_KERNELS_H_
#define ARMATURE_TENSOR_CPU_RANDOM_FILL_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

absl::Status RandomFill(Stream& stream, const RandomFillArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_RANDOM_FILL_KERNELS_H_
