// Shape: the extents of a row-major tensor, at most kMaxRank of them. The empty shape [] is a scalar with one
// element; an extent may be 0.
#ifndef ARMATURE_TENSOR_SHAPE_H_
#define ARMATURE_TENSOR_SHAPE_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace armature {

class Shape {
 public:
  static constexpr int kMaxRank = 8;

  // A scalar.
  Shape() = default;
  // Extents that the program itself knows to be >= 0 and whose product fits an int64_t; for those of a file
  // or a user call Create.
  Shape(std::initializer_list<int64_t> dims) : Shape(absl::MakeConstSpan(dims.begin(), dims.size())) {}
  explicit Shape(absl::Span<const int64_t> dims);

  // Errors: InvalidArgument if there are more than kMaxRank extents, one is negative, or the number of
  // elements overflows an int64_t.
  static absl::StatusOr<Shape> Create(absl::Span<const int64_t> dims);

  int rank() const { return rank_; }
  // The extent of dimension `i`; -1 is the last one. `i` in [-rank, rank).
  int64_t dim(int i) const { return dims_[i < 0 ? i + rank_ : i]; }
  absl::Span<const int64_t> dims() const { return absl::MakeConstSpan(dims_.data(), rank_); }
  int64_t num_elements() const { return num_elements_; }
  // num_elements() / dim(-1), that is the rows of the tensor as a matrix; 0 if the last extent is 0. rank()
  // >= 1.
  int64_t num_rows() const;

  // The same shape with dimension `i` (as in dim) replaced.
  Shape WithDim(int i, int64_t extent) const;

  // "[2, 3]".
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims() == b.dims(); }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.ToString(); }

 private:
  std::array<int64_t, kMaxRank> dims_ = {};
  int rank_ = 0;
  int64_t num_elements_ = 1;
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_SHAPE_H_
