#include "armature/engine/batch_shares.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace armature {
namespace {

int64_t LargestPowerOfTwo(int64_t at_most) {
  int64_t power = 1;
  while (power * 2 <= at_most) power *= 2;
  return power;
}

}  // namespace

absl::StatusOr<std::vector<BatchPiece>> PiecesOfRank(int64_t samples, int rank,
                                                     const BatchSharesOptions& options) {
  const int64_t ranks = options.data_ranks;
  int64_t per_rank = 0;
  if (options.reproducible) {
    const int64_t pieces = LargestPowerOfTwo(std::min(samples, kReproduciblePieces));
    if (pieces % ranks != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "reproducible: a batch of ", samples, " samples is cut into ", pieces, " pieces, which ", ranks,
          " data ranks don't divide; they must be a power of two, and "
          "at most the samples and ",
          kReproduciblePieces));
    }
    per_rank = pieces / ranks;
  } else {
    per_rank =
        std::clamp<int64_t>(options.microbatches, 1, std::max<int64_t>((samples + ranks - 1) / ranks, 1));
  }
  const int64_t all = per_rank * ranks;
  std::vector<BatchPiece> pieces;
  for (int64_t m = 0; m < per_rank; ++m) {
    const int64_t number = options.interleaved ? m * ranks + rank : rank * per_rank + m;
    // Pieces of nearly equal length.
    pieces.push_back({samples * number / all, samples * (number + 1) / all});
  }
  return pieces;
}

}  // namespace armature
