#include "armature/data/sampler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace armature {

RankShare ShareOfRank(int64_t batch_size, int64_t rank, int64_t num_ranks) {
  const int64_t each = batch_size / num_ranks;
  const int64_t left = batch_size % num_ranks;  // the first ranks take one more
  const int64_t begin = rank * each + std::min(rank, left);
  return {begin, begin + each + (rank < left ? 1 : 0)};
}

absl::StatusOr<Sampler> Sampler::Create(const SamplerOptions& options) {
  if (options.num_samples <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("a sampler of ", options.num_samples, " samples"));
  }
  return Sampler(options);
}

int64_t Sampler::At(int64_t epoch, int64_t index) const {
  index %= options_.num_samples;
  if (!options_.shuffle) return index;
  return Permutation(options_.num_samples, options_.seed, static_cast<uint64_t>(epoch))[index];
}

SamplePosition Sampler::Normalized(int64_t batch_size, SamplePosition position) const {
  const int64_t left = options_.num_samples - position.index;
  if (left <= 0 || (options_.tail == Tail::kDrop && left < batch_size)) return {position.epoch + 1, 0};
  return position;
}

SampleDraw Sampler::Draw(int64_t batch_size, SamplePosition& position) const {
  position = Normalized(batch_size, position);
  SampleDraw draw;
  draw.num_real = std::min(batch_size, options_.num_samples - position.index);
  const int64_t count = options_.tail == Tail::kPad ? batch_size : draw.num_real;
  draw.samples.reserve(count);
  for (int64_t i = 0; i < count; ++i) draw.samples.push_back(At(position.epoch, position.index + i));
  position.index += draw.num_real;
  return draw;
}

}  // namespace armature
