// ForRandomRuns: which consecutive random numbers belong to a range of a tensor's memory.
#ifndef ARMATURE_TENSOR_CPU_RANDOM_RUNS_H_
#define ARMATURE_TENSOR_CPU_RANDOM_RUNS_H_

#include <algorithm>
#include <cstdint>

#include "armature/tensor/random.h"

namespace armature {
namespace cpu {

// Cuts [begin, end) of the flattened [samples, region.rows, region.cols] into runs of at most `longest` whose
// elements follow each other, and calls body(offset in memory, count, sample, first element) for each.
template <typename Body>
void ForRandomRuns(const RandomRegion& region, int64_t begin, int64_t end, int64_t longest,
                   const Body& body) {
  // Whole rows follow each other: a sample is one long row.
  const bool whole_rows = region.col_offset == 0 && region.cols == region.global_cols;
  const int64_t rows = whole_rows ? 1 : region.rows;
  const int64_t cols = whole_rows ? region.rows * region.cols : region.cols;
  for (int64_t i = begin, count; i < end; i += count) {
    const int64_t row = i / cols, col = i % cols;
    count = std::min({cols - col, end - i, longest});
    const int64_t element = (region.row_offset + row % rows) * region.global_cols + region.col_offset + col;
    body(i, count, region.first_sample + row / rows, element);
  }
}

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_RANDOM_RUNS_H_
