#include "armature/optim/clip.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "armature/optim/chunks.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/clip.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/optim/sum_of_squares-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace HWY_NAMESPACE {

double SumOfSquaresOfChunk(const float* x, int64_t count) { return SumOfSquaresOf(x, count); }

}  // namespace HWY_NAMESPACE
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace {

HWY_EXPORT(SumOfSquaresOfChunk);

}  // namespace

double SumOfSquares(absl::Span<const absl::Span<const float>> parts, ThreadTeam* threads) {
  std::vector<int64_t> lengths;
  lengths.reserve(parts.size());
  for (absl::Span<const float> part : parts) lengths.push_back(static_cast<int64_t>(part.size()));
  const Chunks chunks(lengths);
  std::vector<double> sums(chunks.size());
  chunks.ForEach(threads, [&](const Chunk& chunk) {
    sums[chunk.index] = HWY_DYNAMIC_DISPATCH(SumOfSquaresOfChunk)(parts[chunk.array].data() + chunk.begin,
                                                                  chunk.end - chunk.begin);
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

absl::optional<float> ClipFactor(double norm, double max_norm) {
  if (!std::isfinite(norm)) return absl::nullopt;
  return static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
}

}  // namespace armature
#endif  // HWY_ONCE
