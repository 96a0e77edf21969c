// LayerNorm and RMSNorm on f32, forward and backward.
//
// Memory: each row is read from memory once and then from the cache: the forward moves 8 bytes an element,
// the backward
// 12. The backward is one pass for dx, dweight and dbias; it takes rows in at most 64 chunks, whose sums over
// rows lie in a workspace [chunks, cols] until they are added in the order of rows.
//
// The variance is that of x - m for the rounded mean m, corrected for the rest of the mean: far from zero it
// keeps the digits that x has.
#ifndef ARMATURE_TENSOR_CPU_NORM_KERNELS_H_
#define ARMATURE_TENSOR_CPU_NORM_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

absl::Status LayerNorm(Stream& stream, const NormArgs& args);
absl::Status RmsNorm(Stream& stream, const NormArgs& args);

// Both norms: a null mean says RMSNorm. Errors: ResourceExhausted if there is no memory for the workspace.
absl::Status NormBackward(Stream& stream, const NormBackwardArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_NORM_KERNELS_H_
