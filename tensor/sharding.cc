#include "armature/tensor/sharding.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace armature {
namespace {

std::vector<int64_t> SectionsOf(const Shape& global_shape, const Sharding& sharding) {
  if (!sharding.sections.empty()) return sharding.sections;
  return {global_shape.dim(sharding.dim)};
}

// Rows of a section that each part has, padding included.
int64_t PartExtent(int64_t section, int parts) { return section / parts + (section % parts != 0 ? 1 : 0); }

// Elements [global, global + extent) along the split dimension.
struct Stretch {
  int64_t global = 0, local = 0, extent = 0;
};

std::vector<Stretch> StretchesOf(const Shape& global_shape, const Sharding& sharding) {
  std::vector<Stretch> stretches;
  int64_t section_begin = 0, local = 0;
  for (int64_t section : SectionsOf(global_shape, sharding)) {
    const int64_t extent = PartExtent(section, sharding.parts);
    const int64_t begin = std::min(section, sharding.part * extent);
    const int64_t end = std::min(section, begin + extent);
    const Stretch next = {section_begin + begin, local, end - begin};
    Stretch* last = stretches.empty() ? nullptr : &stretches.back();
    if (last != nullptr && last->global + last->extent == next.global &&
        last->local + last->extent == next.local) {
      last->extent += next.extent;
    } else if (next.extent > 0) {
      stretches.push_back(next);
    }
    section_begin += section;
    local += extent;
  }
  return stretches;
}

}  // namespace

bool operator==(const Sharding& a, const Sharding& b) {
  return a.dim == b.dim && a.sections == b.sections && a.parts == b.parts && a.part == b.part &&
         a.padded == b.padded && a.partial_gradient == b.partial_gradient;
}

absl::Status CheckSharding(const Shape& global_shape, const Sharding& sharding) {
  if (sharding.dim == -1) return absl::OkStatus();
  if (sharding.dim < 0 || sharding.dim >= global_shape.rank() || sharding.part < 0 ||
      sharding.part >= sharding.parts) {
    return absl::InvalidArgumentError(absl::StrCat("part ", sharding.part, " of ", sharding.parts,
                                                   " along dimension ", sharding.dim, " of ",
                                                   global_shape.ToString()));
  }
  const std::vector<int64_t> sections = SectionsOf(global_shape, sharding);
  if (std::accumulate(sections.begin(), sections.end(), int64_t{0}) != global_shape.dim(sharding.dim)) {
    return absl::InvalidArgumentError(absl::StrCat("sections ", absl::StrJoin(sections, " + "),
                                                   " are not dimension ", sharding.dim, " of ",
                                                   global_shape.ToString()));
  }
  for (int64_t section : sections) {
    if (section >= 0 && (sharding.padded || section % sharding.parts == 0)) continue;
    return absl::InvalidArgumentError(absl::StrCat("dimension ", sharding.dim, " of ",
                                                   global_shape.ToString(), ": ", section,
                                                   " is not divisible by the tensor size ", sharding.parts));
  }
  return absl::OkStatus();
}

Shape LocalShape(const Shape& global_shape, const Sharding& sharding) {
  if (sharding.dim == -1) return global_shape;
  int64_t extent = 0;
  for (int64_t section : SectionsOf(global_shape, sharding)) extent += PartExtent(section, sharding.parts);
  return global_shape.WithDim(sharding.dim, extent);
}

std::vector<ShardPiece> PiecesOf(const Shape& global_shape, const Sharding& sharding) {
  if (global_shape.num_elements() == 0) return {};
  ShardPiece piece = {WholeSlice(global_shape), WholeSlice(global_shape)};
  if (sharding.dim == -1) return {piece};
  std::vector<ShardPiece> pieces;
  for (const Stretch& stretch : StretchesOf(global_shape, sharding)) {
    piece.global.offset[sharding.dim] = stretch.global;
    piece.local.offset[sharding.dim] = stretch.local;
    piece.global.shape = piece.local.shape = global_shape.WithDim(sharding.dim, stretch.extent);
    pieces.push_back(piece);
  }
  return pieces;
}

std::vector<ShardRun> RunsOf(const Shape& global_shape, const Sharding& sharding, int64_t begin,
                             int64_t end) {
  if (begin >= end) return {};
  if (sharding.dim == -1) return {{begin, begin, end - begin}};
  // The tensor as a matrix whose columns are split.
  int64_t rows = 1, inner = 1;
  for (int i = 0; i < global_shape.rank(); ++i) (i < sharding.dim ? rows : inner) *= global_shape.dim(i);
  const int64_t global_cols = inner;
  inner /= global_shape.dim(sharding.dim);
  const int64_t local_cols = LocalShape(global_shape, sharding).dim(sharding.dim) * inner;
  const std::vector<Stretch> stretches = StretchesOf(global_shape, sharding);
  std::vector<ShardRun> runs;
  for (int64_t row = begin / local_cols; row * local_cols < end; ++row) {
    for (const Stretch& stretch : stretches) {
      const int64_t local = row * local_cols + stretch.local * inner;
      const int64_t from = std::max(local, begin), to = std::min(local + stretch.extent * inner, end);
      if (from >= to) continue;
      runs.push_back({from, row * global_cols + stretch.global * inner + from - local, to - from});
    }
  }
  return runs;
}

}  // namespace armature
