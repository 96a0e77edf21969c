#include "armature/tensor/shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace armature {
namespace {

std::string Format(absl::Span<const int64_t> dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

}  // namespace

Shape::Shape(absl::Span<const int64_t> dims)
    : rank_(static_cast<int>(std::min<size_t>(dims.size(), kMaxRank))) {
  std::copy_n(dims.begin(), rank_, dims_.begin());
  for (int64_t dim : this->dims()) num_elements_ *= dim;
}

absl::StatusOr<Shape> Shape::Create(absl::Span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", Format(dims), " has more than ", kMaxRank, " dimensions"));
  }
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (dim < 0) return absl::InvalidArgumentError(absl::StrCat("negative extent in shape ", Format(dims)));
    // An extent of 0 makes the product 0, but the others must still not overflow on the way.
    if (__builtin_mul_overflow(product, dim == 0 ? 1 : dim, &product)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", Format(dims), " has more than 2^63-1 elements"));
    }
  }
  return Shape(dims);
}

int64_t Shape::num_rows() const { return dim(-1) == 0 ? 0 : num_elements_ / dim(-1); }

Shape Shape::WithDim(int i, int64_t extent) const {
  std::array<int64_t, kMaxRank> dims = dims_;
  dims[i < 0 ? i + rank_ : i] = extent;
  return Shape(absl::MakeConstSpan(dims.data(), rank_));
}

std::string Shape::ToString() const { return Format(dims()); }

}  // namespace armature
