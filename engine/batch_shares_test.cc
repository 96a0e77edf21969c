#include "armature/engine/batch_shares.h"

#include <algorithm>

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

std::vector<std::vector<BatchPiece>> All(int64_t samples, const BatchSharesOptions& options) {
  std::vector<std::vector<BatchPiece>> all;
  for (int rank = 0; rank < options.data_ranks; ++rank) {
    absl::StatusOr<std::vector<BatchPiece>> pieces = PiecesOfRank(samples, rank, options);
    EXPECT_THAT(pieces, IsOk());
    all.push_back(pieces.ok() ? *pieces : std::vector<BatchPiece>());
  }
  return all;
}

TEST(PiecesOfRank, HoldEachSampleOnceInEquallyManyPieces) {
  for (const bool interleaved : {false, true}) {
    for (const int ranks : {1, 2, 3, 8}) {
      for (const int64_t samples : {1, 2, 7, 8, 20}) {
        for (const int64_t microbatches : {1, 2, 5}) {
          BatchSharesOptions options;
          options.data_ranks = ranks;
          options.microbatches = microbatches;
          options.interleaved = interleaved;
          std::vector<int> seen(samples, 0);
          const auto all = All(samples, options);
          for (const std::vector<BatchPiece>& pieces : all) {
            EXPECT_EQ(pieces.size(), all[0].size());
            EXPECT_LE(static_cast<int64_t>(pieces.size()), microbatches);
            for (const BatchPiece& piece : pieces) {
              for (int64_t i = piece.begin; i < piece.end; ++i) ++seen[i];
            }
          }
          EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), samples);
        }
      }
    }
  }
}

TEST(PiecesOfRank, AreTheSamePiecesForAllRanksWhenReproducible) {
  for (const bool interleaved : {false, true}) {
    std::vector<std::vector<int64_t>> cuts;
    for (const int ranks : {1, 2, 4, 8}) {
      for (const int64_t microbatches : {1, 4}) {
        BatchSharesOptions options;
        options.data_ranks = ranks;
        options.microbatches = microbatches;
        options.interleaved = interleaved;
        options.reproducible = true;
        std::vector<int64_t> begins;
        for (const auto& pieces : All(13, options)) {
          for (const BatchPiece& piece : pieces) begins.push_back(piece.begin);
        }
        std::sort(begins.begin(), begins.end());
        cuts.push_back(begins);
      }
    }
    for (const std::vector<int64_t>& begins : cuts) EXPECT_EQ(begins, cuts[0]);
  }
}

TEST(PiecesOfRank, RefusesRanksThatDontDivideReproduciblePieces) {
  BatchSharesOptions options;
  options.reproducible = true;
  options.data_ranks = 3;
  EXPECT_THAT(PiecesOfRank(12, 0, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 data ranks")));
  options.data_ranks = 8;
  EXPECT_THAT(PiecesOfRank(4, 0, options), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace armature
