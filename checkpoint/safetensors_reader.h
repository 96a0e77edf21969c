// ReadSafetensorsIndex finds the tensors in the bytes of a safetensors file:
//
//   ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, files.Map(path));
//   ARMATURE_ASSIGN_OR_RETURN(SafetensorsIndex index, ReadSafetensorsIndex(file->bytes()), path);
//   for (const SafetensorsEntry& tensor : index.tensors) Use(tensor.name, BytesOf(tensor, file->bytes()));
//
// The file may be hostile: nothing outside the given bytes is read, and no more memory taken than its size
// warrants. For whole files by name see weights_file.h.
#ifndef ARMATURE_CHECKPOINT_SAFETENSORS_READER_H_
#define ARMATURE_CHECKPOINT_SAFETENSORS_READER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "armature/checkpoint/safetensors_format.h"

namespace armature {

struct SafetensorsIndex {
  std::vector<SafetensorsEntry> tensors;  // in the order of their data
  SafetensorsMetadata metadata;
};

// Errors: InvalidArgument, with a text of its own for each way to be no safetensors file: a length cut short,
// past the end or over kMaxSafetensorsHeaderBytes; a header that ParseSafetensorsHeader refuses; an unknown
// dtype; a rank over Shape::kMaxRank; a size that overflows or is not that of shape and dtype; data that
// overlaps, leaves a hole, is cut short, or goes on after the last tensor.
absl::StatusOr<SafetensorsIndex> ReadSafetensorsIndex(absl::string_view file);

// The data of an entry of the index of `file`.
inline absl::string_view BytesOf(const SafetensorsEntry& entry, absl::string_view file) {
  return file.substr(entry.offset_bytes, entry.size_bytes);
}

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_SAFETENSORS_READER_H_
