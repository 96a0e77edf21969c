// y = activation(x + bias) and its derivative, on f32.
//
// Memory: one pass, 8 bytes an element (12 with `pre`); the backward reads 8 and writes 4.
#ifndef ARMATURE_TENSOR_CPU_ACTIVATION_KERNELS_H_
#define ARMATURE_TENSOR_CPU_ACTIVATION_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

absl::Status BiasActivation(Stream& stream, const BiasActivationArgs& args);
absl::Status ActivationBackward(Stream& stream, const ActivationBackwardArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_ACTIVATION_KERNELS_H_
