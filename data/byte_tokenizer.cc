#include "armature/data/byte_tokenizer.h"

#include "absl/strings/str_cat.h"

namespace armature {

absl::StatusOr<std::vector<int32_t>> ByteTokenizer::Encode(absl::string_view text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

absl::StatusOr<std::string> ByteTokenizer::Decode(absl::Span<const int32_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (int32_t token : tokens) {
    if (token < 0 || token > 255) {
      return absl::InvalidArgumentError(absl::StrCat("token ", token, " is no byte"));
    }
    text.push_back(static_cast<char>(token));
  }
  return text;
}

}  // namespace armature
