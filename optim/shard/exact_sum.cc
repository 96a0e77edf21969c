#include "armature/optim/shard/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "armature/optim/chunks.h"

namespace armature {
namespace {

// Of the logarithm of the number of terms: so many additions keep a bin exact.
constexpr int kLogTerms = 33;
// A double's significand less the bits that the terms' number needs, and one for rounding.
constexpr int kBinBits = 53 - kLogTerms;

Chunks ChunksOf(absl::Span<const absl::Span<const float>> parts) {
  std::vector<int64_t> lengths;
  for (absl::Span<const float> part : parts) lengths.push_back(static_cast<int64_t>(part.size()));
  return Chunks(lengths);
}

// x rounded to a multiple of the unit whose 1.5 * 2^52 multiple is `anchor`.
double RoundAt(double x, double anchor) { return (x + anchor) - anchor; }

}  // namespace

double LargestMagnitude(absl::Span<const absl::Span<const float>> parts, ThreadTeam* threads) {
  const Chunks chunks = ChunksOf(parts);
  std::vector<float> largest(chunks.size(), 0.0f);
  chunks.ForEach(threads, [&](const Chunk& chunk) {
    float most = 0;
    bool finite = true;
    for (float x : parts[chunk.array].subspan(chunk.begin, chunk.end - chunk.begin)) {
      most = std::max(most, std::fabs(x));
      finite &= std::fabs(x) <= std::numeric_limits<float>::max();
    }
    largest[chunk.index] = finite ? most : std::numeric_limits<float>::infinity();
  });
  float most = 0;
  for (float x : largest) most = std::max(most, x);
  return most;
}

ExactSum SumOfSquaresExactly(absl::Span<const absl::Span<const float>> parts, double largest,
                             ThreadTeam* threads) {
  ExactSum total;
  if (largest == 0) return total;
  const int top = 2 * (std::ilogb(largest) + 1);  // every square is below 2^top
  double anchors[3];
  for (int bin = 0; bin < 3; ++bin) anchors[bin] = std::ldexp(1.5, 52 + top - (bin + 1) * kBinBits + bin);
  const Chunks chunks = ChunksOf(parts);
  std::vector<ExactSum> sums(chunks.size());
  chunks.ForEach(threads, [&](const Chunk& chunk) {
    ExactSum sum;
    for (float x : parts[chunk.array].subspan(chunk.begin, chunk.end - chunk.begin)) {
      double rest = static_cast<double>(x) * x;  // exact: 48 bits
      for (int bin = 0; bin < 3; ++bin) {
        const double piece = RoundAt(rest, anchors[bin]);
        sum.bins[bin] += piece;
        rest -= piece;
      }
    }
    sums[chunk.index] = sum;
  });
  for (const ExactSum& sum : sums) {
    for (int bin = 0; bin < 3; ++bin) total.bins[bin] += sum.bins[bin];
  }
  return total;
}

}  // namespace armature
