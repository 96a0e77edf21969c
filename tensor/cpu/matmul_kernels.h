// Matrix products of f32 by oneDNN, on our own threads.
//
// The result is cut into CpuStream::matmul_parts() parts, one single-threaded library call each. The library
// may sum a part in another order than the whole: bits depend on the number of parts, and on nothing else.
// Nothing is set for the whole process, and a caller that uses OpenMP itself finds its settings as they were.
#ifndef ARMATURE_TENSOR_CPU_MATMUL_KERNELS_H_
#define ARMATURE_TENSOR_CPU_MATMUL_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

// f32 in and out. Errors: Internal if the library refuses the call.
absl::Status MatMul(Stream& stream, const MatMulArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_MATMUL_KERNELS_H_
