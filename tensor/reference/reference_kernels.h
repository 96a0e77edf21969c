// The scalar reference: every kernel written as its formula, single-threaded, sums in f64. The oracle of all
// other kernels, and what the CPU backend runs for dtypes that have no vector kernel (f64, for gradient
// checks).
#ifndef ARMATURE_TENSOR_REFERENCE_REFERENCE_KERNELS_H_
#define ARMATURE_TENSOR_REFERENCE_REFERENCE_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {

// Complete: no entry is null. Works on host memory of f32, f64, f16 and bf16; ignores the stream.
const KernelTable& ReferenceKernels();

}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_REFERENCE_KERNELS_H_
