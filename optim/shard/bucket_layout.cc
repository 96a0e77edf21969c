#include "armature/optim/shard/bucket_layout.h"

#include <algorithm>

namespace armature {
namespace {

int64_t RoundUp(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

BucketLayout::BucketLayout(absl::Span<const BucketEntry> parameters, const BucketLayoutOptions& options)
    : places_(parameters.size()) {
  for (int i = static_cast<int>(parameters.size()) - 1; i >= 0; --i) {
    const BucketEntry& entry = parameters[i];
    const bool full = buckets_.empty() || buckets_.back().elements + entry.elements > options.max_elements ||
                      (options.split_at_blocks && buckets_.back().block != entry.block);
    if (full) {
      buckets_.emplace_back();
      buckets_.back().block = entry.block;
    }
    Bucket& bucket = buckets_.back();
    places_[i] = {static_cast<int>(buckets_.size()) - 1, bucket.elements, entry.elements};
    bucket.parameters.push_back(i);
    bucket.first_block = entry.block;  // blocks are declared in order
    bucket.elements = RoundUp(bucket.elements + entry.elements, options.alignment);
  }
  for (Bucket& bucket : buckets_) {
    bucket.elements = RoundUp(bucket.elements, options.alignment * options.shards);
    bucket.shard_elements = bucket.elements / options.shards;
  }
}

BucketLayout::Range BucketLayout::Shard(int bucket, int shard) const {
  const int64_t elements = buckets_[bucket].shard_elements;
  return {shard * elements, (shard + 1) * elements};
}

BucketLayout::Range BucketLayout::PartOf(int parameter, const Range& range) const {
  const Place& place = places_[parameter];
  const int64_t begin = std::max(place.begin, range.begin);
  return {begin, std::max(begin, std::min(place.end(), range.end))};
}

}  // namespace armature
