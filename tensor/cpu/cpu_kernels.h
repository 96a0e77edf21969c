// The CPU's kernel table: vector kernels (Highway, chosen at run time for the processor) and a tuned
// library's matrix products for f32, the scalar reference for the rest.
#ifndef ARMATURE_TENSOR_CPU_CPU_KERNELS_H_
#define ARMATURE_TENSOR_CPU_CPU_KERNELS_H_

#include "armature/tensor/kernels.h"

namespace armature {

// Complete: no entry is null. Streams must be CpuStreams.
const KernelTable& CpuKernels();

}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_CPU_KERNELS_H_
