// BFloat16 and Float16: storage types. Arithmetic happens in float; conversion rounds to nearest even, NaN
// stays NaN, and what is too large becomes infinity.
//
// Reference: IEEE 754-2019, 4.3.1 (roundTiesToEven); bfloat16 is the upper half of an IEEE binary32.
#ifndef ARMATURE_TENSOR_FLOAT16_H_
#define ARMATURE_TENSOR_FLOAT16_H_

#include <cstdint>
#include <cstring>

namespace armature {

namespace internal {

inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace internal

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t f = internal::FloatBits(value);
    if ((f & 0x7FFFFFFFu) > 0x7F800000u) {
      bits =
          0x7FC0u | static_cast<uint16_t>((f >> 16) & 0x8000u);  // a NaN whose payload lies in the lower half
    } else {
      bits = static_cast<uint16_t>((f + 0x7FFFu + ((f >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return internal::FloatFromBits(static_cast<uint32_t>(bits) << 16); }
};

struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value) {
    const uint32_t f = internal::FloatBits(value);
    const uint16_t sign = static_cast<uint16_t>((f >> 16) & 0x8000u);
    const uint32_t magnitude = f & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) {
      bits = sign | 0x7E00u;
    } else if (magnitude >= 0x477FF000u) {  // 65520 and more round to infinity
      bits = sign | 0x7C00u;
    } else if (magnitude >= 0x38800000u) {  // normal: 2^-14 and more
      const uint32_t rounded = magnitude + 0x0FFFu + ((magnitude >> 13) & 1u);
      bits = sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
    } else {
      // Subnormal: adding 0.5 leaves the value's multiple of 2^-24 in the sum's last bits, rounded by the
      // hardware.
      const float sum = internal::FloatFromBits(magnitude) + 0.5f;
      bits = sign | static_cast<uint16_t>(internal::FloatBits(sum) - 0x3F000000u);
    }
  }
  explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1Fu, mantissa = bits & 0x3FFu;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;  // 2^-24
      return internal::FloatFromBits(internal::FloatBits(magnitude) | sign);
    }
    const uint32_t biased = exponent == 31 ? 255u : exponent + 112u;
    return internal::FloatFromBits(sign | (biased << 23) | (mantissa << 13));
  }
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2, "storage types");

}  // namespace armature

#endif  // ARMATURE_TENSOR_FLOAT16_H_
