#include "armature/checkpoint/safetensors_format.h"

#include "absl/strings/str_cat.h"

namespace armature {

absl::string_view SafetensorsName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kF64:
      return "F64";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
    case DType::kU8:
      return "U8";
    case DType::kBool:
      return "BOOL";
  }
  return "unknown";
}

absl::StatusOr<DType> ParseSafetensorsDType(absl::string_view name) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI32, DType::kI64,
                      DType::kU8, DType::kBool}) {
    if (SafetensorsName(dtype) == name) return dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown dtype \"", name.substr(0, 32),
                                                 "\"; known are F32, F16, BF16, F64, I32, I64, U8, BOOL"));
}

absl::StatusOr<int64_t> SizeBytes(const Shape& shape, DType dtype) {
  int64_t size;
  if (__builtin_mul_overflow(shape.num_elements(), SizeOf(dtype), &size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", shape.ToString(), " of ", Name(dtype), " has more than 2^63-1 bytes"));
  }
  return size;
}

}  // namespace armature
