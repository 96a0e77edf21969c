// The manifest of a checkpoint: its encoding and its checks. The messages are those of manifest.proto.
#ifndef ARMATURE_CHECKPOINT_MANIFEST_H_
#define ARMATURE_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "armature/checkpoint/manifest.pb.h"
#include "armature/tensor/slice.h"
#include "armature/tensor/shape.h"

namespace armature {

constexpr absl::string_view kManifestFileName = "MANIFEST";
constexpr int kManifestFormat = 1;

// Adds what the ranks wrote to `manifest`.
// Errors: InvalidArgument naming the tensor, if ranks disagree about its dtype or shape, or if an element is
// in no slice or in two.
absl::Status AddShards(absl::Span<const Shard> shards, Manifest& manifest);

// Checks all that a reader relies on: known dtypes, plain file names, slices that tile their tensors and lie
// in their files. Errors: InvalidArgument naming the tensor or file.
absl::Status CheckManifest(const Manifest& manifest);

// Errors: ResourceExhausted if it would have 2 GiB or more.
absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest);

// The inverse, with CheckManifest. Errors: DataLoss if the bytes are not what EncodeManifest gave;
// FailedPrecondition if a newer version of the format wrote them.
absl::StatusOr<Manifest> DecodeManifest(absl::string_view bytes);

// Of a manifest that passed CheckManifest.
Shape ShapeOf(const SavedTensor& tensor);
Slice SliceOf(const SavedSlice& saved);

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_MANIFEST_H_
