// Blocks of elements that change places: between the order in which ranks exchange parts of a tensor and the
// tensor's own. Moves bytes; 2 of memory traffic for each byte of a block.
#ifndef ARMATURE_TENSOR_CPU_COPY_KERNELS_H_
#define ARMATURE_TENSOR_CPU_COPY_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

absl::Status CopyBlocks(Stream& stream, const CopyBlocksArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_COPY_KERNELS_H_
