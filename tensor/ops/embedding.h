#ifndef ARMATURE_TENSOR_OPS_EMBEDDING_H_
#define ARMATURE_TENSOR_OPS_EMBEDDING_H_

#include "armature/tensor/tensor.h"

namespace armature {
namespace ops {

// Rows of a table: y[i] = table[ids[i] - first_row], or 0 where the table has no such row: with vocabulary
// parallelism another rank has it, and a sum over ranks completes the result.
//
// Shapes:  table [rows, n], ids [...] -> [..., n]
// DTypes:  table f32, f16, bf16, f64; ids i32.
// Errors:  InvalidArgument if shapes or dtypes don't fit. An id is data, and is not checked here: what reads
// a batch
//          from outside checks it.
// Memory:  saves ids. The gradient is added in the order of the ids, straight into the table's slot.
Tensor Embedding(const Tensor& table, const Tensor& ids, int64_t first_row = 0);

}  // namespace ops
}  // namespace armature

#endif  // ARMATURE_TENSOR_OPS_EMBEDDING_H_
