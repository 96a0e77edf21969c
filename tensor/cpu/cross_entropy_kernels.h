// Softmax cross-entropy on f32 logits; probabilities are never stored.
//
// Memory: the forward reads the logits once, 4 bytes an element: blocks that fit the first-level cache are
// searched for their maximum and then summed relative to the running one (an online softmax, one correction a
// block). The backward reads and writes each element once, in place if asked.
#ifndef ARMATURE_TENSOR_CPU_CROSS_ENTROPY_KERNELS_H_
#define ARMATURE_TENSOR_CPU_CROSS_ENTROPY_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

absl::Status CrossEntropy(Stream& stream, const CrossEntropyArgs& args);
absl::Status CrossEntropyPart(Stream& stream, const CrossEntropyPartArgs& args);
absl::Status CrossEntropyBackward(Stream& stream, const CrossEntropyBackwardArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_CROSS_ENTROPY_KERNELS_H_
