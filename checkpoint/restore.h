// The two halves of a restore: everything that can fail, and then the copy, which can't.
#ifndef ARMATURE_CHECKPOINT_RESTORE_H_
#define ARMATURE_CHECKPOINT_RESTORE_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "armature/checkpoint/manifest.pb.h"
#include "armature/checkpoint/shard.h"
#include "armature/tensor/sharded_array.h"

namespace armature {

struct RestoreOptions {
  // Let f32, f16, bf16 and f64 stand for each other, rounding where needed. Without it a tensor saved in
  // another dtype than it is wanted in is an error.
  bool convert_dtypes = false;
  // Let the checkpoint have tensors that nobody wants, as when weights are loaded without the optimizer's
  // state.
  bool ignore_unused = false;
};

// Errors: InvalidArgument if an array is not host memory of its slice's size, or if the checkpoint lacks a
// tensor, has one too many, or has one in another shape or dtype; the message names the first few of them,
// with both shapes.
absl::Status CheckFits(const Manifest& manifest, absl::Span<const ShardedArray> into,
                       const RestoreOptions& options);

// Fills `into`, which fits.
void CopyInto(const Manifest& manifest, const VerifiedShards& shards, absl::Span<const ShardedArray> into);

// Errors: InvalidArgument if the array's memory is not what its slice says.
absl::Status CheckArray(const ShardedArray& array);

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_RESTORE_H_
