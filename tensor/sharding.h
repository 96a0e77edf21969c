// Sharding: which part of a whole tensor one rank of the tensor axis holds. Pure arithmetic: initial values,
// checkpoints and norms over shards are written from PiecesOf and RunsOf.
//
//   Sharding split;                       // a fused q, k, v projection [4, 12], by whole heads
//   split.dim = 1;
//   split.sections = {4, 4, 4};
//   split.parts = 2;
//   LocalShape({4, 12}, split)            // [4, 6]: half of q, half of k, half of v
//   PiecesOf({4, 12}, split)              // columns [0, 2), [4, 6) and [8, 10)
#ifndef ARMATURE_TENSOR_SHARDING_H_
#define ARMATURE_TENSOR_SHARDING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "armature/tensor/shape.h"
#include "armature/tensor/slice.h"

namespace armature {

struct Sharding {
  // The dimension that is split; -1: none, and every rank holds the whole.
  int dim = -1;
  // Extents along `dim`, each of which is split by itself: {h, h, h} for a fused q, k, v projection, the
  // widths {q, k, v} for grouped-query attention. Empty: one section.
  std::vector<int64_t> sections;
  // This rank holds part `part` of each section.
  int parts = 1;
  int part = 0;
  // A section that the parts do not divide is padded: every part has ceil(extent / parts) rows of it, of
  // which the last ones hold fewer, or no, valid ones. Padding is 0, has gradient 0 and is not saved.
  bool padded = false;
  // Every rank of the tensor axis holds this parameter, but computes only its part of the gradient
  // (sequence parallelism): the gradient is the sum over that axis.
  bool partial_gradient = false;

  friend bool operator==(const Sharding& a, const Sharding& b);
  friend bool operator!=(const Sharding& a, const Sharding& b) { return !(a == b); }
};

// A box that a rank holds: where it lies in the whole tensor, and where in the rank's. Both have one shape.
struct ShardPiece {
  Slice global, local;
};

// `count` elements that follow each other in the rank's tensor and in the whole, both row-major: elements
// [local, local + count) of the one are [global, global + count) of the other.
struct ShardRun {
  int64_t local = 0;
  int64_t global = 0;
  int64_t count = 0;
};

// Errors: InvalidArgument if the dimension or the part is not there, the sections don't add up to the
// dimension, or one of them is not divisible by `parts` and not padded; with the numbers.
absl::Status CheckSharding(const Shape& global_shape, const Sharding& sharding);

// The shape of this rank's tensor, padding included. For a sharding that CheckSharding accepts, as below.
Shape LocalShape(const Shape& global_shape, const Sharding& sharding);

// All that this rank holds of the whole tensor, in the order of its own tensor. No piece is empty, pieces
// that are neighbours in both tensors are one, and what they leave out of the rank's tensor is padding.
std::vector<ShardPiece> PiecesOf(const Shape& global_shape, const Sharding& sharding);

// Elements [begin, end) of this rank's tensor as runs, ascending; those that no run has are padding.
std::vector<ShardRun> RunsOf(const Shape& global_shape, const Sharding& sharding, int64_t begin, int64_t end);

}  // namespace armature

#endif  // ARMATURE_TENSOR_SHARDING_H_
