// Unsigned integers as little-endian bytes, on hosts of either order. Compilers turn each into one
// instruction.
#ifndef ARMATURE_DATA_LITTLE_ENDIAN_H_
#define ARMATURE_DATA_LITTLE_ENDIAN_H_

#include <cstddef>
#include <string>
#include <type_traits>

namespace armature {

// Reads sizeof(T) bytes, however aligned.
template <typename T>
T LoadLittleEndian(const char* bytes) {
  static_assert(std::is_unsigned<T>::value, "only unsigned integers have one obvious encoding");
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i));
  }
  return value;
}

template <typename T>
void AppendLittleEndian(T value, std::string& out) {
  static_assert(std::is_unsigned<T>::value, "only unsigned integers have one obvious encoding");
  char bytes[sizeof(T)];
  for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  out.append(bytes, sizeof(T));
}

}  // namespace armature

#endif  // ARMATURE_DATA_LITTLE_ENDIAN_H_
