// What the safetensors reader and writer agree on.
//
// A file is a u64 little-endian header length, a JSON header of that many bytes, and the tensors' data
// without gaps:
//   {"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
// data_offsets count from the end of the header. Data is row-major and little-endian.
//
// Reference: https://github.com/huggingface/safetensors#format
#ifndef ARMATURE_CHECKPOINT_SAFETENSORS_FORMAT_H_
#define ARMATURE_CHECKPOINT_SAFETENSORS_FORMAT_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "armature/tensor/dtype.h"
#include "armature/tensor/shape.h"

namespace armature {

// The format's own bound: a header is parsed in memory, and a file must not be able to claim more.
constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;
constexpr int64_t kSafetensorsLengthBytes = 8;
constexpr absl::string_view kSafetensorsMetadataKey = "__metadata__";

// The value of "__metadata__".
using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  int64_t offset_bytes = 0;  // in the file
  int64_t size_bytes = 0;
};

// "F32", "BF16", "BOOL", ...: the format's name of a dtype.
absl::string_view SafetensorsName(DType dtype);

// The inverse. Errors: InvalidArgument naming the text, if it is none of the format's or one that DType
// lacks.
absl::StatusOr<DType> ParseSafetensorsDType(absl::string_view name);

// Bytes of a tensor. Errors: InvalidArgument if the number overflows an int64_t.
absl::StatusOr<int64_t> SizeBytes(const Shape& shape, DType dtype);

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_SAFETENSORS_FORMAT_H_
