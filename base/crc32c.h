// CRC-32C (Castagnoli), the checksum of checkpoints, token files and event files.
//
//   uint32_t crc = Crc32c("123456789");             // 0xE3069283
//   crc = ExtendCrc32c(Crc32c("12345"), "6789");    // the same
//
// Reference: RFC 3720, appendix B.4.
#ifndef ARMATURE_BASE_CRC32C_H_
#define ARMATURE_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace armature {

// The checksum of what `crc` is the checksum of, followed by `bytes`.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes);

// The checksum of no bytes is 0.
inline uint32_t Crc32c(absl::string_view bytes) { return ExtendCrc32c(0, bytes); }

}  // namespace armature

#endif  // ARMATURE_BASE_CRC32C_H_
