// Which samples of a step's batch each data rank computes, and in which pieces. Pure arithmetic: every rank
// and every process comes to the same answer from the whole batch.
#ifndef ARMATURE_ENGINE_BATCH_SHARES_H_
#define ARMATURE_ENGINE_BATCH_SHARES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace armature {

// Samples [begin, end) of the batch: one microbatch. All ranks have equally many pieces; where samples are
// fewer, some are empty.
struct BatchPiece {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t samples() const { return end - begin; }
};

struct BatchSharesOptions {
  int data_ranks = 1;
  // Of each rank; fewer if there are not so many samples.
  int64_t microbatches = 1;
  // The batch is cut into a number of pieces that depends on its samples alone, so that gradients can be
  // summed in one canonical tree: a power of two, at most kReproduciblePieces.
  bool reproducible = false;
  // Piece m of rank r is number m * ranks + r, and not r * pieces + m.
  bool interleaved = false;
};

inline constexpr int64_t kReproduciblePieces = 32;

// The pieces of data rank `rank`, in the order in which it computes them.
// Errors: InvalidArgument if a reproducible batch can't be cut over the ranks, with the numbers.
absl::StatusOr<std::vector<BatchPiece>> PiecesOfRank(int64_t samples, int rank,
                                                     const BatchSharesOptions& options);

}  // namespace armature

#endif  // ARMATURE_ENGINE_BATCH_SHARES_H_
