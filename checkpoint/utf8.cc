#include "armature/checkpoint/utf8.h"

namespace armature {
namespace {

bool InRange(uint8_t byte, uint8_t low, uint8_t high) { return byte >= low && byte <= high; }

// The length of the well-formed sequence at the start of `text`, or 0.
size_t SequenceLength(absl::string_view text) {
  const uint8_t lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return 1;
  size_t length;
  uint8_t low = 0x80, high = 0xBF;  // of the second byte
  if (InRange(lead, 0xC2, 0xDF)) {
    length = 2;
  } else if (InRange(lead, 0xE0, 0xEF)) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (InRange(lead, 0xF0, 0xF4)) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (text.size() < length || !InRange(static_cast<uint8_t>(text[1]), low, high)) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (!InRange(static_cast<uint8_t>(text[i]), 0x80, 0xBF)) return 0;
  }
  return length;
}

}  // namespace

int64_t FindInvalidUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceLength(text.substr(i));
    if (length == 0) return static_cast<int64_t>(i);
    i += length;
  }
  return -1;
}

}  // namespace armature
