// Tokenizer: text to tokens and back. Implementations are immutable and thread-safe.
#ifndef ARMATURE_DATA_TOKENIZER_H_
#define ARMATURE_DATA_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace armature {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Tokens are in [0, vocabulary_size()).
  virtual int64_t vocabulary_size() const = 0;

  // Errors: InvalidArgument for text that has no tokens here.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const = 0;

  // Errors: InvalidArgument naming a token outside the vocabulary.
  virtual absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) const = 0;

  // Where a long text may be cut: the largest n such that, whatever follows `text`, encoding its first n
  // bytes and the rest apart gives the tokens of the whole; 0 if there is none. It lets a corpus be encoded
  // piece by piece.
  virtual size_t CutPoint(absl::string_view text) const = 0;
};

}  // namespace armature

#endif  // ARMATURE_DATA_TOKENIZER_H_
