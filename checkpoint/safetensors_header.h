// The JSON header of a safetensors file as written: checked as JSON and field by field, but not yet against
// the data.
#ifndef ARMATURE_CHECKPOINT_SAFETENSORS_HEADER_H_
#define ARMATURE_CHECKPOINT_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "armature/checkpoint/safetensors_format.h"

namespace armature {

struct SafetensorsHeader {
  struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;         // each >= 0; their product may overflow
    std::vector<int64_t> data_offsets;  // exactly two, each >= 0, in any order
  };
  std::vector<Tensor> tensors;  // in the header's order
  SafetensorsMetadata metadata;
};

// Errors: InvalidArgument if `json` is not UTF-8, not JSON, not an object of the format's fields, names a key
// twice at any level, lacks a field, or has one that the format does not know.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json);

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_SAFETENSORS_HEADER_H_
