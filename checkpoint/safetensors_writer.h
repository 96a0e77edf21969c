// SafetensorsWriter writes a safetensors file as a stream: the tensors are declared first, then their bytes
// follow.
//
//   ARMATURE_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(declared, metadata));
//   ARMATURE_RETURN_IF_ERROR(writer.WriteHeader(file));
//   for (const SafetensorsEntry& tensor : writer.tensors()) ARMATURE_RETURN_IF_ERROR(writer.Append(file,
//   Data(tensor))); ARMATURE_RETURN_IF_ERROR(writer.Finish());
//
// Equal declarations give equal bytes, whatever their order: tensors are sorted by element size, widest
// first, then by name. As data begins at a multiple of 8 bytes, each tensor is aligned to its elements.
#ifndef ARMATURE_CHECKPOINT_SAFETENSORS_WRITER_H_
#define ARMATURE_CHECKPOINT_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "armature/base/file_system.h"
#include "armature/checkpoint/safetensors_format.h"

namespace armature {

struct SafetensorsDeclaration {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

// Thread-compatible. Writes nothing but what it is told to, and neither syncs nor closes the file.
class SafetensorsWriter {
 public:
  // Errors: InvalidArgument if a name stands twice, is "__metadata__", or is not UTF-8 (metadata likewise),
  // if the sizes overflow, or if the header would be longer than readers accept.
  static absl::StatusOr<SafetensorsWriter> Create(std::vector<SafetensorsDeclaration> tensors,
                                                  const SafetensorsMetadata& metadata = {});

  // In the order of their data, which is that of Append.
  absl::Span<const SafetensorsEntry> tensors() const { return tensors_; }
  // The bytes before the data.
  const std::string& header() const { return header_; }
  // Of the whole file.
  int64_t size_bytes() const { return size_bytes_; }

  // Call once, first.
  absl::Status WriteHeader(WritableFile& file);
  // The next bytes of the data, in pieces of any size. Errors: OutOfRange if they are more than was declared.
  absl::Status Append(WritableFile& file, absl::string_view bytes);
  // Errors: FailedPrecondition if bytes are missing.
  absl::Status Finish() const;

 private:
  std::vector<SafetensorsEntry> tensors_;
  std::string header_;
  int64_t size_bytes_ = 0;
  int64_t written_bytes_ = 0;
};

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_SAFETENSORS_WRITER_H_
