// A shard is the file that one rank writes into a checkpoint: safetensors, so that other tools can open it.
#ifndef ARMATURE_CHECKPOINT_SHARD_H_
#define ARMATURE_CHECKPOINT_SHARD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "armature/base/file_system.h"
#include "armature/checkpoint/manifest.pb.h"
#include "armature/tensor/slice.h"

namespace armature {

// A slice in host memory, to be written.
struct HostSlice {
  std::string name;  // of the tensor
  DType dtype = DType::kF32;
  Shape global_shape;
  Slice slice;
  absl::string_view bytes;
  bool primary =
      true;  // false: another rank writes these elements, and this one only says that the tensor exists
};

// Writes the primary ones of `slices` to directory/file_name and syncs the file, but not the directory. In
// the file a whole tensor has its own name, and a slice that of the tensor with its range: "w[0:2, 4:8]".
// Errors: InvalidArgument naming the tensor, or those of the file system.
absl::StatusOr<Shard> WriteShard(FileSystem& files, absl::string_view directory, absl::string_view file_name,
                                 absl::Span<const HostSlice> slices);

// The shards of a checkpoint, mapped and verified. The bytes stay readable for the life of this object.
class VerifiedShards {
 public:
  // Maps every file of the manifest, which passed CheckManifest, and checks every byte against its checksum.
  // Errors: DataLoss naming the file, and the tensor where it is a tensor's data that changed; otherwise
  // those of the file system.
  static absl::StatusOr<VerifiedShards> Open(FileSystem& files, absl::string_view directory,
                                             const Manifest& manifest);

  // The elements of a slice of `tensor`.
  absl::string_view BytesOf(const SavedTensor& tensor, const SavedSlice& slice) const;

 private:
  absl::Status Verify(const Manifest& manifest) const;

  std::vector<std::unique_ptr<MappedFile>> files_;  // as in the manifest
};

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_SHARD_H_
