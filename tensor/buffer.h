// BufferView: a region of memory as a collective, a kernel or a file sees it. Does not own.
#ifndef ARMATURE_TENSOR_BUFFER_H_
#define ARMATURE_TENSOR_BUFFER_H_

#include <cstdint>

#include "armature/tensor/device.h"
#include "armature/tensor/dtype.h"

namespace armature {

struct BufferView {
  void* data = nullptr;
  int64_t count = 0;  // elements
  DType dtype = DType::kF32;
  Device device;

  int64_t size_bytes() const { return count * SizeOf(dtype); }
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_BUFFER_H_
