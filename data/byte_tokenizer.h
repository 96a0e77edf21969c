// ByteTokenizer: each byte is a token, so any text in any encoding, and any other file, has its 256 tokens.
// The simplest vocabulary that loses nothing; for tests, small models and byte-level ones.
#ifndef ARMATURE_DATA_BYTE_TOKENIZER_H_
#define ARMATURE_DATA_BYTE_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "armature/data/tokenizer.h"

namespace armature {

class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocabulary_size() const override { return 256; }
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const override;
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) const override;
  size_t CutPoint(absl::string_view text) const override { return text.size(); }
};

}  // namespace armature

#endif  // ARMATURE_DATA_BYTE_TOKENIZER_H_
