// Sampler: which samples make up each global batch.
//
// The order is a pure function of (seed, epoch, index), so a run's whole state is a position, however many
// ranks there are: stopping, resuming and changing the number of ranks move no sample.
//
//   ARMATURE_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create({/*num_samples=*/1000, /*seed=*/7}));
//   SamplePosition position;
//   SampleDraw draw = sampler.Draw(/*batch_size=*/64, position);   // moves the position on
//   RankShare share = ShareOfRank(draw.samples.size(), rank, num_ranks);
//
// Ranks take contiguous shares of the global batch. With one sample for each rank that is the strided
// assignment of other libraries: of 10 samples over 4 ranks, padded, rank 1 sees 1, 5 and 9.
#ifndef ARMATURE_DATA_SAMPLER_H_
#define ARMATURE_DATA_SAMPLER_H_

#include <cstdint>
#include <ostream>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "armature/data/permutation.h"

namespace armature {

// What becomes of the samples at the end of an epoch that do not fill a batch.
enum class Tail {
  kKeep,  // a smaller last batch: every sample once
  kPad,   // filled up with the epoch's first samples again, round and round; padding must not be counted
  kDrop,  // left out of this epoch
};

struct SamplerOptions {
  // Samples of the data set. No default.
  int64_t num_samples = 0;
  uint64_t seed = 0;
  // False: in file order, every epoch. True: each epoch in its own random order.
  bool shuffle = true;
  Tail tail = Tail::kDrop;
};

// The next sample to be drawn: `index` counts the samples of `epoch` that were drawn.
struct SamplePosition {
  int64_t epoch = 0;
  int64_t index = 0;

  friend bool operator==(const SamplePosition& a, const SamplePosition& b) {
    return a.epoch == b.epoch && a.index == b.index;
  }
  friend bool operator!=(const SamplePosition& a, const SamplePosition& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, const SamplePosition& position) {
    return out << "epoch " << position.epoch << ", index " << position.index;
  }
};

// A global batch.
struct SampleDraw {
  std::vector<int64_t> samples;
  // So many of the first ones are real; those after them are padding.
  int64_t num_real = 0;
};

// A rank's part [begin, end) of a global batch.
struct RankShare {
  int64_t begin = 0;
  int64_t end = 0;
};

// Contiguous shares in rank order whose sizes differ by one at most. 0 <= rank < num_ranks.
RankShare ShareOfRank(int64_t batch_size, int64_t rank, int64_t num_ranks);

// Thread-safe: it does not change.
class Sampler {
 public:
  // Errors: InvalidArgument if there is no sample.
  static absl::StatusOr<Sampler> Create(const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }

  // The sample at `index` >= 0 of an epoch; beyond the epoch's end it starts over from its beginning.
  int64_t At(int64_t epoch, int64_t index) const;

  // The global batch at `position`, which moves on behind it. No batch spans two epochs; where this one has
  // no further batch, the draw is from the next. 0 < batch_size, and at most num_samples with Tail::kDrop;
  // position.index in [0, num_samples].
  SampleDraw Draw(int64_t batch_size, SamplePosition& position) const;

  // Where Draw will begin: `position`, or the next epoch if this one has no further batch. That is decided as
  // late as this because a run may be resumed with smaller batches, for which there is one.
  SamplePosition Normalized(int64_t batch_size, SamplePosition position) const;

 private:
  explicit Sampler(const SamplerOptions& options) : options_(options) {}

  SamplerOptions options_;
};

}  // namespace armature

#endif  // ARMATURE_DATA_SAMPLER_H_
