#include "armature/tensor/cpu/cpu_kernels.h"

#include "armature/tensor/reference/reference_kernels.h"

namespace armature {

const KernelTable& CpuKernels() {
  static const KernelTable table = [] {
    KernelTable kernels = ReferenceKernels();
    return kernels;
  }();
  return table;
}

}  // namespace armature
