// TokenFile: a tokenized corpus on disk, read through a memory map. token_file_format.h has the bytes.
//
//   ARMATURE_ASSIGN_OR_RETURN(TokenFile corpus, TokenFile::Open(files, "train.tokens"));
//   ARMATURE_RETURN_IF_ERROR(corpus.Verify());              // reads it all, once; may be left out
//   std::vector<int32_t> window(1025);
//   ARMATURE_RETURN_IF_ERROR(corpus.Read(0, absl::MakeSpan(window)));
#ifndef ARMATURE_DATA_TOKEN_FILE_H_
#define ARMATURE_DATA_TOKEN_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "armature/base/file_system.h"
#include "armature/data/token_file_format.h"

namespace armature {

// Thread-safe. Movable.
class TokenFile {
 public:
  // Checks all but the payload.
  // Errors: those of FileSystem::Map and ParseTokenFile, naming the path.
  static absl::StatusOr<TokenFile> Open(FileSystem& files, absl::string_view path);

  const std::string& path() const { return path_; }
  int64_t num_tokens() const { return layout_.num_tokens; }
  int64_t vocabulary_size() const { return layout_.vocabulary_size; }
  int token_bits() const { return layout_.token_bits; }

  // Fills `out` with the tokens from position `begin` on.
  // Errors: OutOfRange if they are not all in the file; DataLoss for a token outside the vocabulary. `out` is
  // unspecified after an error.
  absl::Status Read(int64_t begin, absl::Span<int32_t> out) const;

  // Reads the whole payload and compares it with its checksums and the vocabulary.
  // Errors: DataLoss naming the path and the first bad tokens.
  absl::Status Verify() const;

 private:
  TokenFile(std::string path, std::unique_ptr<MappedFile> mapped, const TokenFileLayout& layout)
      : path_(std::move(path)), mapped_(std::move(mapped)), layout_(layout) {}

  // The error for the first token of a range that is outside the vocabulary.
  absl::Status OutsideVocabulary(int64_t begin, int64_t count) const;
  // Where the token at `position` stands.
  const char* At(int64_t position) const;

  std::string path_;
  std::unique_ptr<MappedFile> mapped_;
  TokenFileLayout layout_;
};

}  // namespace armature

#endif  // ARMATURE_DATA_TOKEN_FILE_H_
