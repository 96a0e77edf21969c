// ExactSum: a sum of squares whose bits depend neither on the order of the terms nor on how they are shared
// out over ranks, chunks and threads.
//
//   double largest = LargestMagnitude(parts, threads);              // then the largest over all ranks
//   ExactSum sum = SumOfSquaresExactly(parts, largest, threads);    // then summed over all ranks, bin by bin
//   const double squares = sum.ToDouble();
//
// Each square is cut at fixed powers of two into three pieces, and each bin's pieces add without rounding.
// Reference: Demmel, Nguyen, "Fast reproducible floating-point summation" (2013).
#ifndef ARMATURE_OPTIM_SHARD_EXACT_SUM_H_
#define ARMATURE_OPTIM_SHARD_EXACT_SUM_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "armature/base/thread_team.h"

namespace armature {

struct ExactSum {
  std::array<double, 3> bins = {0, 0, 0};  // from the coarsest to the finest

  double ToDouble() const { return bins[0] + (bins[1] + bins[2]); }
};

// The largest |x|; infinity if an element is infinite or NaN. `threads` may be null here and below.
double LargestMagnitude(absl::Span<const absl::Span<const float>> parts, ThreadTeam* threads);

// `largest` is at least every |x| of all ranks that share the sum, and finite. At most 2^33 elements
// over all ranks. Within 2^-57 * largest^2 of the true sum for each element.
ExactSum SumOfSquaresExactly(absl::Span<const absl::Span<const float>> parts, double largest,
                             ThreadTeam* threads);

}  // namespace armature

#endif  // ARMATURE_OPTIM_SHARD_EXACT_SUM_H_
