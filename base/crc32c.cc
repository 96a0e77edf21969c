#include "armature/base/crc32c.h"

#include <algorithm>

#include "isa-l/crc.h"

namespace armature {

uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes) {
  constexpr size_t kMaxPiece = size_t{1} << 30;  // the library counts bytes in an int
  uint32_t state = ~crc;                         // and leaves both inversions to its caller
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), kMaxPiece);
    state = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data())),
                        static_cast<int>(piece), state);
    bytes.remove_prefix(piece);
  }
  return ~state;
}

}  // namespace armature
