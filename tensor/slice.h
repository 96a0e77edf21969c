// A Slice is a box of a tensor: what one rank holds, and what one file stores. Any layout of slices can be
// loaded into any other, because all that is needed is the part that two boxes share.
#ifndef ARMATURE_TENSOR_SLICE_H_
#define ARMATURE_TENSOR_SLICE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "armature/tensor/dtype.h"
#include "armature/tensor/shape.h"

namespace armature {

struct Slice {
  std::vector<int64_t> offset;  // of the first element in the whole, per dimension
  Shape shape;                  // of the same rank

  // "[0:2, 4:8]"; "[]" for a scalar.
  std::string ToString() const;

  friend bool operator==(const Slice& a, const Slice& b) {
    return a.offset == b.offset && a.shape == b.shape;
  }
  friend bool operator!=(const Slice& a, const Slice& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, const Slice& slice) { return out << slice.ToString(); }
};

// All of a tensor.
Slice WholeSlice(const Shape& global_shape);

// Errors: InvalidArgument if the slice's rank differs or it leaves the tensor; the message has both.
absl::Status CheckSliceIn(const Slice& slice, const Shape& global_shape);

// Checks that every element of the tensor lies in exactly one of the slices, each of which CheckSliceIn
// accepts. Errors: InvalidArgument naming two slices that overlap, or how many elements no slice has.
absl::Status CheckSlicesTile(std::vector<Slice> slices, const Shape& global_shape);

// What two slices of one tensor share, if anything.
absl::optional<Slice> Intersect(const Slice& a, const Slice& b);

// The elements [begin, end) of the row-major tensor, as slices in row-major order whose elements follow each
// other: at most 2 * rank - 1 of them. So a range of a flat buffer becomes slices that any layout can load.
// 0 <= begin <= end <= elements.
std::vector<Slice> SlicesOfFlatRange(const Shape& global_shape, int64_t begin, int64_t end);

// Elements from one index of each dimension to the next in a row-major tensor.
std::vector<int64_t> RowMajorStrides(const Shape& shape);

// Copies what `from` and `to` share from the elements of the one to those of the other, converting the dtype.
// Each data pointer is that of the slice's first element, and need not be aligned; empty strides: the slice's
// elements lie row-major. CanConvert(from_dtype, to_dtype).
void CopyShared(const Slice& from, DType from_dtype, const char* from_data, const Slice& to, DType to_dtype,
                char* to_data, absl::Span<const int64_t> from_strides = {},
                absl::Span<const int64_t> to_strides = {});

}  // namespace armature

#endif  // ARMATURE_TENSOR_SLICE_H_
