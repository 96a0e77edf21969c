#include "armature/tensor/convert.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "armature/tensor/float16.h"

namespace armature {
namespace {

template <typename To, typename From>
To Cast(From value) {
  return static_cast<To>(static_cast<float>(value));
}
template <>
float Cast(double value) {
  return static_cast<float>(value);
}

// The float next to `value` whose last bit is 1, unless `value` is a float: rounding that once more to 16
// bits gives what rounding `value` at once would ("round to odd"; Boldo and Melquiond, 2008).
float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || std::isinf(value) || static_cast<double>(nearest) == value) return nearest;
  if (internal::FloatBits(nearest) & 1u) return nearest;
  const float toward = static_cast<double>(nearest) < value ? 1.0f : -1.0f;
  return std::nextafter(nearest, toward * std::numeric_limits<float>::infinity());
}
template <>
BFloat16 Cast(double value) {
  return BFloat16(RoundToOdd(value));
}
template <>
Float16 Cast(double value) {
  return Float16(RoundToOdd(value));
}

template <typename From, typename To>
void Convert(const char* from, char* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From in;
    std::memcpy(&in, from + i * sizeof(From), sizeof(From));
    const To out = Cast<To>(in);
    std::memcpy(to + i * sizeof(To), &out, sizeof(To));
  }
}

template <typename From>
void ConvertFrom(const char* from, char* to, DType to_dtype, int64_t count) {
  switch (to_dtype) {
    case DType::kF32:
      return Convert<From, float>(from, to, count);
    case DType::kF64:
      return Convert<From, double>(from, to, count);
    case DType::kF16:
      return Convert<From, Float16>(from, to, count);
    case DType::kBF16:
      return Convert<From, BFloat16>(from, to, count);
    default:
      return;
  }
}

}  // namespace

bool CanConvert(DType from, DType to) { return from == to || (IsFloat(from) && IsFloat(to)); }

void ConvertElements(const char* from, DType from_dtype, char* to, DType to_dtype, int64_t count) {
  if (count <= 0) return;
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, count * SizeOf(from_dtype));
    return;
  }
  switch (from_dtype) {
    case DType::kF32:
      return ConvertFrom<float>(from, to, to_dtype, count);
    case DType::kF64:
      return ConvertFrom<double>(from, to, to_dtype, count);
    case DType::kF16:
      return ConvertFrom<Float16>(from, to, to_dtype, count);
    case DType::kBF16:
      return ConvertFrom<BFloat16>(from, to, to_dtype, count);
    default:
      return;
  }
}

}  // namespace armature
