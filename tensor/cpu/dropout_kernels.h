// Dropout with an optional residual, on f32: y = residual + keep x / (1 - p).
//
// Memory: one pass, 8 bytes an element, 12 with a residual; the mask is computed and never stored.
#ifndef ARMATURE_TENSOR_CPU_DROPOUT_KERNELS_H_
#define ARMATURE_TENSOR_CPU_DROPOUT_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

absl::Status Dropout(Stream& stream, const DropoutArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_DROPOUT_KERNELS_H_
