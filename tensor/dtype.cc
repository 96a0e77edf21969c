#include "armature/tensor/dtype.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace armature {
namespace {

constexpr DType kAll[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64,
                          DType::kI32, DType::kI64, DType::kU8,   DType::kBool};

}  // namespace

int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

absl::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kF64:
      return "f64";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
    case DType::kBool:
      return "bool";
  }
  return "unknown";
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (DType dtype : kAll) {
    if (Name(dtype) == name) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown dtype \"", name, "\"; known are f32, f16, bf16, f64, i32, i64, u8, bool"));
}

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF64;
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << Name(dtype); }

}  // namespace armature
