// The sum over rows of an f32 matrix.
//
// Memory: one pass, 4 bytes an element. Sums run over 32 rows at a time, so that rounding grows with the
// number of such blocks and not of rows.
#ifndef ARMATURE_TENSOR_CPU_COLUMN_SUM_KERNELS_H_
#define ARMATURE_TENSOR_CPU_COLUMN_SUM_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

absl::Status ColumnSum(Stream& stream, const ColumnSumArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_COLUMN_SUM_KERNELS_H_
