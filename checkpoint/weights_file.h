// Named arrays in one safetensors file: weights that are exported, imported, or compared with.
//
//   ARMATURE_ASSIGN_OR_RETURN(NamedArrays arrays, ReadSafetensors(files, "gpt2.safetensors"));
//   ARMATURE_ASSIGN_OR_RETURN(NamedArray embedding, arrays.Find("wte.weight"));
#ifndef ARMATURE_CHECKPOINT_WEIGHTS_FILE_H_
#define ARMATURE_CHECKPOINT_WEIGHTS_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "armature/base/file_system.h"
#include "armature/checkpoint/safetensors_format.h"

namespace armature {

// An array and its row-major elements, which it does not own. Those of a file that another program wrote may
// be unaligned.
struct NamedArray {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  absl::string_view bytes;
};

// The arrays of a file. Their bytes are those of the mapped file, and live as long as this object. Movable.
class NamedArrays {
 public:
  // Sorted by name.
  absl::Span<const NamedArray> arrays() const { return arrays_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // Errors: NotFound naming the array.
  absl::StatusOr<NamedArray> Find(absl::string_view name) const;

 private:
  friend absl::StatusOr<NamedArrays> ReadSafetensors(FileSystem& files, absl::string_view path);

  std::unique_ptr<MappedFile> file_;
  std::vector<NamedArray> arrays_;
  SafetensorsMetadata metadata_;
};

// Maps the file and reads its header, not the data.
// Errors: InvalidArgument naming the path, if it is no safetensors file (ReadSafetensorsIndex); those of the
// file system.
absl::StatusOr<NamedArrays> ReadSafetensors(FileSystem& files, absl::string_view path);

// Writes a file, durable and whole or not at all: it is written as path.partial and renamed. Equal arrays and
// metadata give equal bytes, whatever their order. Errors: InvalidArgument naming the array, if its bytes are
// not those of its shape (SafetensorsWriter::Create has the other cases); those of the file system.
absl::Status WriteSafetensors(FileSystem& files, absl::string_view path, absl::Span<const NamedArray> arrays,
                              const SafetensorsMetadata& metadata = {});

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_WEIGHTS_FILE_H_
