// DType: the element types of tensors, collectives and files.
#ifndef ARMATURE_TENSOR_DTYPE_H_
#define ARMATURE_TENSOR_DTYPE_H_

#include <cstdint>
#include <ostream>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace armature {

enum class DType : uint8_t { kF32, kF16, kBF16, kF64, kI32, kI64, kU8, kBool };

// Bytes of one element.
int64_t SizeOf(DType dtype);

// "f32", "f16", "bf16", "f64", "i32", "i64", "u8", "bool".
absl::string_view Name(DType dtype);

// The inverse of Name. Errors: InvalidArgument naming the text.
absl::StatusOr<DType> ParseDType(absl::string_view name);

// True for f32, f16, bf16 and f64.
bool IsFloat(DType dtype);

std::ostream& operator<<(std::ostream& out, DType dtype);

}  // namespace armature

#endif  // ARMATURE_TENSOR_DTYPE_H_
