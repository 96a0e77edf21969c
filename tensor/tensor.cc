#include "armature/tensor/tensor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/tensor/backend.h"
#include "armature/tensor/storage.h"

namespace armature {

Tensor Tensor::Empty(Backend& backend, const Shape& shape, DType dtype, MemoryCategory category) {
  int64_t size_bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(), SizeOf(dtype), &size_bytes)) {
    return Failed(
        absl::InvalidArgumentError(absl::StrCat("tensor ", shape.ToString(), " has too many bytes")));
  }
  absl::StatusOr<void*> data = backend.allocator().Allocate(size_bytes, category);
  if (!data.ok()) return Failed(data.status());
  Tensor tensor;
  tensor.storage_ = std::make_shared<Storage>(backend, *data, size_bytes, category);
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  return tensor;
}

Tensor Tensor::Zeros(Backend& backend, const Shape& shape, DType dtype, MemoryCategory category) {
  Tensor tensor = Empty(backend, shape, dtype, category);
  if (!tensor.ok()) return tensor;
  FillArgs args;
  args.y = tensor.data();
  // Zero has the same bits in every dtype, so integers are filled as bytes' worth of a float type of their
  // size.
  args.count = tensor.num_elements();
  args.dtype = dtype;
  if (!IsFloat(dtype)) {
    args.dtype = SizeOf(dtype) == 8 ? DType::kF64 : SizeOf(dtype) == 4 ? DType::kF32 : DType::kF16;
    if (SizeOf(dtype) == 1) {
      // The allocator rounds every block up, so the last half of an odd count is there.
      args.count = (args.count + 1) / 2;
    }
  }
  absl::Status filled = backend.kernels().fill(backend.compute_stream(), args);
  return filled.ok() ? tensor : Failed(filled);
}

Tensor Tensor::FromHostBytes(Backend& backend, const Shape& shape, const void* data, int64_t size_bytes,
                             DType dtype, MemoryCategory category) {
  Tensor tensor = Empty(backend, shape, dtype, category);
  if (!tensor.ok()) return tensor;
  if (size_bytes != tensor.size_bytes()) {
    return Failed(
        absl::InvalidArgumentError(absl::StrCat(size_bytes, " bytes for a tensor ", shape.ToString(), " of ",
                                                Name(dtype), ", which has ", tensor.size_bytes())));
  }
  BufferView host;
  host.data = const_cast<void*>(data);  // Copy only reads its source
  host.count = tensor.num_elements();
  host.dtype = dtype;
  absl::Status copied = backend.Copy(tensor.view(), host);
  return copied.ok() ? tensor : Failed(copied);
}

Tensor Tensor::Failed(absl::Status why) {
  Tensor tensor;
  tensor.status_ = why.ok() ? absl::InternalError("Tensor::Failed with an OK status") : std::move(why);
  return tensor;
}

absl::Status Tensor::status() const {
  if (status_.ok() && storage_ == nullptr) return absl::FailedPreconditionError("an empty tensor handle");
  return status_;
}

Backend& Tensor::backend() const { return storage_->backend(); }

void* Tensor::data() const { return storage_->data() + offset_bytes_; }

BufferView Tensor::view() const {
  BufferView view;
  view.data = data();
  view.count = num_elements();
  view.dtype = dtype_;
  view.device = backend().device();
  return view;
}

void Tensor::EvictStorage() const { storage_->Evict(); }

absl::Status Tensor::ReacquireStorage() const { return storage_->Reacquire(); }

Tensor Tensor::Slice(int64_t begin, int64_t end) const {
  if (!ok()) return Failed(status());
  if (tape_ != nullptr) {
    return Failed(absl::FailedPreconditionError("Tensor::Slice of a tensor on a tape; use ops::Slice"));
  }
  if (shape_.rank() == 0 || begin < 0 || begin > end || end > shape_.dim(0)) {
    return Failed(
        absl::OutOfRangeError(absl::StrCat("Slice [", begin, ", ", end, ") of ", shape_.ToString())));
  }
  Tensor slice = *this;
  slice.shape_ = shape_.WithDim(0, end - begin);
  const int64_t row_elements = shape_.dim(0) == 0 ? 0 : num_elements() / shape_.dim(0);
  slice.offset_bytes_ += begin * row_elements * SizeOf(dtype_);
  return slice;
}

Tensor Tensor::Reshape(const Shape& shape) const {
  if (!ok()) return Failed(status());
  if (shape.num_elements() != num_elements()) {
    return Failed(absl::InvalidArgumentError(absl::StrCat("Reshape of ", shape_.ToString(), " to ",
                                                          shape.ToString(), ": numbers of elements differ")));
  }
  Tensor reshaped = *this;
  reshaped.shape_ = shape;
  return reshaped;
}

absl::Status Tensor::ToHost(void* out) const {
  if (!ok()) return status();
  BufferView host;
  host.data = out;
  host.count = num_elements();
  host.dtype = dtype_;
  return backend().Copy(host, view());
}

Tensor Tensor::Detach() const { return OnTape(nullptr, -1); }

Tensor Tensor::OnTape(Tape* tape, int32_t value) const {
  Tensor tensor = *this;
  tensor.tape_ = tape;
  tensor.tape_value_ = value;
  return tensor;
}

}  // namespace armature
