#include "armature/data/array.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"

namespace armature {

absl::StatusOr<Array> Array::Allocate(const Shape& shape, DType dtype) {
  Array array;
  array.shape_ = shape;
  array.dtype_ = dtype;
  int64_t size_bytes = 0;
  const bool overflow = __builtin_mul_overflow(shape.num_elements(), SizeOf(dtype), &size_bytes);
  if (!overflow) array.data_.reset(static_cast<char*>(::operator new(size_bytes, kAlignment, std::nothrow)));
  if (array.data_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for an array of shape ", shape.ToString(), " and dtype ", Name(dtype)));
  }
  return array;
}

absl::StatusOr<Array> Array::Create(const Shape& shape, DType dtype) {
  ARMATURE_ASSIGN_OR_RETURN(Array array, Allocate(shape, dtype));
  std::memset(array.data_.get(), 0, array.size_bytes());
  return array;
}

absl::StatusOr<Array> Array::FromBytes(const Shape& shape, DType dtype, absl::Span<const char> bytes) {
  ARMATURE_ASSIGN_OR_RETURN(Array array, Allocate(shape, dtype));
  const int64_t size_bytes = static_cast<int64_t>(bytes.size());
  if (size_bytes != array.size_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat(size_bytes / SizeOf(dtype), " values for shape ", shape.ToString()));
  }
  if (size_bytes > 0) std::memcpy(array.data_.get(), bytes.data(), bytes.size());
  return array;
}

absl::StatusOr<Array> Array::Slice(int64_t begin, int64_t end) const {
  if (shape_.rank() == 0 || begin < 0 || begin > end || end > shape_.dim(0)) {
    return absl::OutOfRangeError(
        absl::StrCat("rows ", begin, " to ", end, " of an array of shape ", shape_.ToString()));
  }
  const int64_t row_bytes = shape_.dim(0) == 0 ? 0 : size_bytes() / shape_.dim(0);
  return FromBytes(shape_.WithDim(0, end - begin), dtype_,
                   bytes().subspan(begin * row_bytes, (end - begin) * row_bytes));
}

absl::StatusOr<Array> Array::Clone() const { return FromBytes(shape_, dtype_, bytes()); }

}  // namespace armature
