#include "armature/tensor/reference/reference_kernels.h"

namespace armature {

const KernelTable& ReferenceKernels() {
  static const KernelTable table;
  return table;
}

}  // namespace armature
