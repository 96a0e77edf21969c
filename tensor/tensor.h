// Tensor: a cheap handle to a row-major, contiguous block of elements on one device.
//
//   Tensor x = Tensor::Empty(backend, {2, 3}, DType::kF32, MemoryCategory::kActivations);
//   Tensor y = ops::Linear(x, w, b);                 // tensor/ops
//   if (!y.ok()) return y.status();                  // "Linear: x [2, 3] and w [4, 5]: ..."
//
// Errors ride in tensors: an operation that gets bad arguments or runs out of memory returns a failed tensor,
// every operation that reads a failed tensor returns its error, and so the first error comes out at the end,
// once.
//
// A tensor may be on a tape (tensor/tape.h): then operations on it are recorded, so that gradients can flow
// back. Copies of a handle share memory, and there is no operation that writes into a tensor that another
// handle reads.
#ifndef ARMATURE_TENSOR_TENSOR_H_
#define ARMATURE_TENSOR_TENSOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "armature/tensor/allocator.h"
#include "armature/tensor/buffer.h"
#include "armature/tensor/dtype.h"
#include "armature/tensor/shape.h"

namespace armature {

class Backend;
class Storage;
class Tape;

class Tensor {
 public:
  // Invalid: status() is FailedPrecondition, valid() is false. Stands for "none" where a tensor is optional.
  Tensor() = default;

  // Uninitialised elements. Failed if memory runs out or the shape is too large.
  static Tensor Empty(Backend& backend, const Shape& shape, DType dtype, MemoryCategory category);
  // All elements 0.
  static Tensor Zeros(Backend& backend, const Shape& shape, DType dtype, MemoryCategory category);
  // A copy of host elements, row-major; values.size() must be the shape's number of elements.
  template <typename T>
  static Tensor FromHost(Backend& backend, const Shape& shape, absl::Span<const T> values, DType dtype,
                         MemoryCategory category = MemoryCategory::kOther) {
    return FromHostBytes(backend, shape, values.data(), static_cast<int64_t>(values.size() * sizeof(T)),
                         dtype, category);
  }
  static Tensor FromHostBytes(Backend& backend, const Shape& shape, const void* data, int64_t size_bytes,
                              DType dtype, MemoryCategory category = MemoryCategory::kOther);
  // Carries `why`, which must not be OK.
  static Tensor Failed(absl::Status why);

  // False for a default-constructed tensor, true for one with elements or an error.
  bool valid() const { return storage_ != nullptr || !status_.ok(); }
  bool ok() const { return storage_ != nullptr && status_.ok(); }
  // OK, or the first error on the way here.
  absl::Status status() const;

  // Of an ok() tensor.
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  int64_t size_bytes() const { return num_elements() * SizeOf(dtype_); }
  Backend& backend() const;
  // The first element, in the device's memory.
  void* data() const;
  BufferView view() const;
  // The allocation that this tensor views; tensors that share it may overlap.
  const Storage* storage() const { return storage_.get(); }
  // True if no other handle shares the memory: it may be reused in place.
  bool unique() const { return storage_.use_count() == 1; }

  // For weights that are gathered for a while: the memory under this and all tensors that share it is given
  // back, and nobody may read them until it has been reacquired, uninitialised.
  void EvictStorage() const;
  absl::Status ReacquireStorage() const;

  // Elements [begin, end) of the leading dimension; a view. Failed with OutOfRange if they are not there, and
  // with FailedPrecondition on a tape, where the slice would lose its gradient: use ops::Slice.
  Tensor Slice(int64_t begin, int64_t end) const;
  // The same elements under another shape; a view that stays on the tape. Failed if the number of elements
  // differs.
  Tensor Reshape(const Shape& shape) const;

  // Copies the elements to `out`, which has size_bytes() bytes.
  absl::Status ToHost(void* out) const;

  // The tape that records what is done with this tensor; null if none.
  Tape* tape() const { return tape_; }
  // This tensor's number on its tape.
  int32_t tape_value() const { return tape_value_; }
  // The same memory, on no tape: what a function saves for its backward.
  Tensor Detach() const;
  // The same memory as value `value` of `tape`. For the tape itself.
  Tensor OnTape(Tape* tape, int32_t value) const;

 private:
  std::shared_ptr<Storage> storage_;
  int64_t offset_bytes_ = 0;
  Shape shape_;
  DType dtype_ = DType::kF32;
  Tape* tape_ = nullptr;
  int32_t tape_value_ = -1;
  absl::Status status_;
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_TENSOR_H_
