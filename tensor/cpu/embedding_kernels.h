// Rows of an f32 table by number, and the table's gradient.
//
// Memory: the forward copies count rows, 8 bytes an element. The backward adds count rows in their order, 12
// bytes an element; threads share out the columns, so that no two write one element and the order is the same
// for all of them.
#ifndef ARMATURE_TENSOR_CPU_EMBEDDING_KERNELS_H_
#define ARMATURE_TENSOR_CPU_EMBEDDING_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

absl::Status Embedding(Stream& stream, const EmbeddingArgs& args);
absl::Status EmbeddingBackward(Stream& stream, const EmbeddingBackwardArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_EMBEDDING_KERNELS_H_
