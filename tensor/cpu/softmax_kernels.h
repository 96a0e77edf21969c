// Softmax over rows of f32, and its gradient.
//
// Memory: a row is read from memory once and then from the cache, 8 bytes an element; the backward moves 12.
#ifndef ARMATURE_TENSOR_CPU_SOFTMAX_KERNELS_H_
#define ARMATURE_TENSOR_CPU_SOFTMAX_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

absl::Status Softmax(Stream& stream, const SoftmaxArgs& args);
absl::Status SoftmaxBackward(Stream& stream, const SoftmaxBackwardArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_SOFTMAX_KERNELS_H_
