// BucketLayout: where each parameter lies in flat buckets, and which part of a bucket each rank owns. Plain
// arithmetic; the same on every rank.
//
// Buckets are filled in the reverse of the order in which parameters are declared, which is the order in
// which the backward completes their gradients: bucket 0 can be reduced first, while the rest of the backward
// runs. Reference: Li et al., "PyTorch Distributed: experiences on accelerating data parallel training"
// (2020), section 3.2.3.
#ifndef ARMATURE_OPTIM_SHARD_BUCKET_LAYOUT_H_
#define ARMATURE_OPTIM_SHARD_BUCKET_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace armature {

// A parameter as a layout sees it.
struct BucketEntry {
  int64_t elements = 0;
  int block = 0;  // of the model
};

struct BucketLayoutOptions {
  // The ranks that a bucket is cut over, each with an equal part.
  int shards = 1;
  // A bucket is closed before it would grow past this; a larger parameter has a bucket of its own.
  int64_t max_elements = 6553600;  // 25 MiB of f32
  // No bucket holds parameters of two blocks: blocks are gathered one by one.
  bool split_at_blocks = false;
  // A parameter begins at a multiple of this, so that no two kernels share a cache line, and so does a shard.
  int64_t alignment = 16;
};

class BucketLayout {
 public:
  struct Bucket {
    std::vector<int> parameters;  // their numbers, in the order of their places
    int64_t shard_elements = 0;   // of each rank
    int64_t elements = 0;         // of all: padding included
    int block = 0;                // of its first parameter
    int first_block = 0;          // the least of its parameters' blocks
  };
  // Elements [begin, begin + elements) of a bucket.
  struct Place {
    int bucket = 0;
    int64_t begin = 0;
    int64_t elements = 0;
    int64_t end() const { return begin + elements; }
  };
  // Elements [begin, end) of a bucket; empty if begin == end.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t elements() const { return end - begin; }
  };

  // Entry i is parameter i.
  BucketLayout(absl::Span<const BucketEntry> parameters, const BucketLayoutOptions& options);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  const Place& place(int parameter) const { return places_[parameter]; }

  // What rank `shard` owns of a bucket.
  Range Shard(int bucket, int shard) const;
  // What a range of a bucket has of a parameter in it.
  Range PartOf(int parameter, const Range& range) const;

 private:
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;
};

}  // namespace armature

#endif  // ARMATURE_OPTIM_SHARD_BUCKET_LAYOUT_H_
