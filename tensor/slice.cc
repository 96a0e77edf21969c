#include "armature/tensor/slice.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "armature/tensor/convert.h"

namespace armature {
namespace {

// How far the element `at` of the tensor lies behind the first one of `in`, which contains it.
int64_t FlatIndex(absl::Span<const int64_t> at, const Slice& in, absl::Span<const int64_t> strides) {
  int64_t index = 0;
  for (int i = 0; i < in.shape.rank(); ++i) index += (at[i] - in.offset[i]) * strides[i];
  return index;
}

// Whether dimension `dim` of what is shared is followed, in memory, by the next index of the one before it.
bool IsDense(const Shape& shared, absl::Span<const int64_t> strides, int dim) {
  return strides[dim - 1] == shared.dim(dim) * strides[dim];
}

// Appends [begin, end) of the part of the tensor whose first `depth` coordinates are those of `prefix`.
void AppendFlatRange(const Shape& shape, int depth, std::vector<int64_t> prefix, int64_t begin, int64_t end,
                     std::vector<Slice>& slices) {
  if (begin >= end) return;
  int64_t stride = 1;  // elements under one index of dimension `depth`
  for (int i = depth + 1; i < shape.rank(); ++i) stride *= shape.dim(i);
  const auto append_rows = [&](int64_t first, int64_t last) {
    if (first >= last) return;
    std::vector<int64_t> offset = prefix, extents(depth, 1);
    offset.push_back(first);
    extents.push_back(last - first);
    for (int i = depth + 1; i < shape.rank(); ++i) {
      offset.push_back(0);
      extents.push_back(shape.dim(i));
    }
    slices.push_back({std::move(offset), Shape(extents)});
  };
  const auto append_part_of_row = [&](int64_t row, int64_t row_begin, int64_t row_end) {
    std::vector<int64_t> longer = prefix;
    longer.push_back(row);
    AppendFlatRange(shape, depth + 1, std::move(longer), row_begin, row_end, slices);
  };
  const int64_t first = begin / stride, last = end / stride;
  if (first == last) return append_part_of_row(first, begin % stride, end % stride);
  const bool begins_inside = begin % stride != 0;
  if (begins_inside) append_part_of_row(first, begin % stride, stride);
  append_rows(begins_inside ? first + 1 : first, last);
  if (end % stride != 0) append_part_of_row(last, 0, end % stride);
}

}  // namespace

std::string Slice::ToString() const {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < offset.size(); ++i) {
    const int64_t extent = static_cast<int>(i) < shape.rank() ? shape.dim(static_cast<int>(i)) : 0;
    ranges.push_back(absl::StrCat(offset[i], ":", offset[i] + extent));
  }
  return absl::StrCat("[", absl::StrJoin(ranges, ", "), "]");
}

Slice WholeSlice(const Shape& global_shape) {
  return {std::vector<int64_t>(global_shape.rank(), 0), global_shape};
}

absl::Status CheckSliceIn(const Slice& slice, const Shape& global_shape) {
  const int rank = global_shape.rank();
  bool inside = slice.shape.rank() == rank && static_cast<int>(slice.offset.size()) == rank;
  for (int i = 0; inside && i < rank; ++i) {
    // Written so that hostile numbers can't overflow.
    inside = slice.offset[i] >= 0 && slice.offset[i] <= global_shape.dim(i) &&
             slice.shape.dim(i) <= global_shape.dim(i) - slice.offset[i];
  }
  if (inside) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a slice of shape ", slice.shape.ToString(), " at offset [",
                                                 absl::StrJoin(slice.offset, ", "),
                                                 "] does not fit into shape ", global_shape.ToString()));
}

absl::Status CheckSlicesTile(std::vector<Slice> slices, const Shape& global_shape) {
  slices.erase(std::remove_if(slices.begin(), slices.end(),
                              [](const Slice& s) { return s.shape.num_elements() == 0; }),
               slices.end());
  std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.offset < b.offset; });
  int64_t missing = global_shape.num_elements();
  for (size_t i = 0; i < slices.size(); ++i) {
    const int64_t end = global_shape.rank() == 0 ? 1 : slices[i].offset[0] + slices[i].shape.dim(0);
    for (size_t j = i + 1; j < slices.size(); ++j) {
      if (global_shape.rank() > 0 && slices[j].offset[0] >= end) break;  // and so are all that follow
      if (Intersect(slices[i], slices[j])) {
        return absl::InvalidArgumentError(
            absl::StrCat("slices ", slices[i].ToString(), " and ", slices[j].ToString(), " overlap"));
      }
    }
    missing -= slices[i].shape.num_elements();
  }
  if (missing == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("no slice has ", missing, " of the ",
                                                 global_shape.num_elements(), " elements of shape ",
                                                 global_shape.ToString()));
}

absl::optional<Slice> Intersect(const Slice& a, const Slice& b) {
  std::array<int64_t, Shape::kMaxRank> extents = {};
  Slice shared;
  for (int i = 0; i < a.shape.rank(); ++i) {
    const int64_t begin = std::max(a.offset[i], b.offset[i]);
    const int64_t end = std::min(a.offset[i] + a.shape.dim(i), b.offset[i] + b.shape.dim(i));
    if (begin >= end) return absl::nullopt;
    shared.offset.push_back(begin);
    extents[i] = end - begin;
  }
  shared.shape = Shape(absl::MakeConstSpan(extents.data(), a.shape.rank()));
  return shared;
}

std::vector<Slice> SlicesOfFlatRange(const Shape& global_shape, int64_t begin, int64_t end) {
  std::vector<Slice> slices;
  if (global_shape.rank() == 0) {
    if (begin < end) slices.push_back(WholeSlice(global_shape));
    return slices;
  }
  AppendFlatRange(global_shape, 0, {}, begin, end, slices);
  return slices;
}

std::vector<int64_t> RowMajorStrides(const Shape& shape) {
  std::vector<int64_t> strides(shape.rank(), 1);
  for (int i = shape.rank() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape.dim(i);
  return strides;
}

void CopyShared(const Slice& from, DType from_dtype, const char* from_data, const Slice& to, DType to_dtype,
                char* to_data, absl::Span<const int64_t> from_strides, absl::Span<const int64_t> to_strides) {
  const absl::optional<Slice> shared = Intersect(from, to);
  if (!shared) return;
  const std::vector<int64_t> from_dense = RowMajorStrides(from.shape), to_dense = RowMajorStrides(to.shape);
  if (from_strides.empty()) from_strides = from_dense;
  if (to_strides.empty()) to_strides = to_dense;
  // Dimensions from `inner` on lie in one run in both.
  int inner = std::max(shared->shape.rank() - 1, 0);
  while (inner > 0 && IsDense(shared->shape, from_strides, inner) &&
         IsDense(shared->shape, to_strides, inner)) {
    --inner;
  }
  int64_t run = 1;
  for (int i = inner; i < shared->shape.rank(); ++i) run *= shared->shape.dim(i);
  const int64_t num_runs = shared->shape.num_elements() / run;
  std::vector<int64_t> at = shared->offset;
  for (int64_t i = 0; i < num_runs; ++i) {
    ConvertElements(from_data + FlatIndex(at, from, from_strides) * SizeOf(from_dtype), from_dtype,
                    to_data + FlatIndex(at, to, to_strides) * SizeOf(to_dtype), to_dtype, run);
    for (int d = inner - 1; d >= 0 && ++at[d] == shared->offset[d] + shared->shape.dim(d); --d)
      at[d] = shared->offset[d];
  }
}

}  // namespace armature
