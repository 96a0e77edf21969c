// Conversion between f32 and the 16-bit floats, with exactly the bits of tensor/float16.h: to nearest even,
// too large to infinity, NaN to the quiet NaN.
//
// Memory: one pass, 6 bytes an element.
#ifndef ARMATURE_TENSOR_CPU_CAST_KERNELS_H_
#define ARMATURE_TENSOR_CPU_CAST_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

// Whether Cast knows the pair: one is f32, the other f16 or bf16.
bool CanCast(const CastArgs& args);

absl::Status Cast(Stream& stream, const CastArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_CAST_KERNELS_H_
