// ShardedArray: a part of a tensor in some rank's memory, as checkpoints see it.
#ifndef ARMATURE_TENSOR_SHARDED_ARRAY_H_
#define ARMATURE_TENSOR_SHARDED_ARRAY_H_

#include <string>
#include <vector>

#include "armature/tensor/buffer.h"
#include "armature/tensor/shape.h"
#include "armature/tensor/slice.h"

namespace armature {

struct ShardedArray {
  std::string name;    // of the tensor: the checkpoint's key. Several arrays may be slices of one tensor
  Shape global_shape;  // of the tensor
  Slice slice;         // the part that `local` holds
  BufferView local;    // in host memory: the slice's first element, and how many there are
  // Elements from one index of each dimension to the next; empty: the slice lies row-major. A rank's part of
  // a fused weight is several slices that lie between each other.
  std::vector<int64_t> strides;
  bool primary = true;  // when saving: exactly one rank writes each element; copies on other ranks say false
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_SHARDED_ARRAY_H_
