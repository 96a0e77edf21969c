// NamedBuffer: a named array in memory that somebody else owns, as exports, checkpoints and callbacks see weights,
// gradients and states.
#ifndef ARMATURE_TENSOR_NAMED_BUFFER_H_
#define ARMATURE_TENSOR_NAMED_BUFFER_H_

#include <string>

#include "armature/tensor/buffer.h"
#include "armature/tensor/shape.h"

namespace armature {

struct NamedBuffer {
  std::string name;
  Shape shape;
  BufferView view;   // shape.num_elements() elements, row-major
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_NAMED_BUFFER_H_
