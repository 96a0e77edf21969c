// TokenFileWriter: writes a token file as a stream, and all of it or nothing.
//
//   ARMATURE_ASSIGN_OR_RETURN(auto writer, TokenFileWriter::Create(files, "train.tokens",
//   {tokenizer.vocabulary_size()})); while (...) ARMATURE_RETURN_IF_ERROR(writer->Append(tokens));
//   ARMATURE_RETURN_IF_ERROR(writer->Finish());
//
// The bytes go to "<path>.partial", which takes the name `path` only when it is whole and synced; until then
// a file already at `path` stays as it is. A writer destroyed before that removes its partial file.
#ifndef ARMATURE_DATA_TOKEN_FILE_WRITER_H_
#define ARMATURE_DATA_TOKEN_FILE_WRITER_H_

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

struct TokenFileOptions {
  // Tokens are below it. No default: it is the tokenizer's.
  int64_t vocabulary_size = 0;
  // 16, 32, or 0 for the smallest that fits the vocabulary.
  int token_bits = 0;
};

// Thread-compatible.
class TokenFileWriter {
 public:
  // `files` must outlive the writer.
  // Errors: InvalidArgument for an impossible kind of token; those of FileSystem::Create.
  static absl::StatusOr<std::unique_ptr<TokenFileWriter>> Create(FileSystem& files, absl::string_view path,
                                                                 const TokenFileOptions& options);
  ~TokenFileWriter();

  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  // Errors: InvalidArgument for a token outside the vocabulary, with nothing of the call written; those of
  // the file system, after which the writer only returns the same error.
  absl::Status Append(absl::Span<const int32_t> tokens);

  // Seal, then Publish.
  absl::Status Finish();
  // Writes out what is left and syncs it: what can fail for want of space fails here. Nothing can be appended
  // after.
  absl::Status Seal();
  // Gives the sealed file its name, durably. Errors: FailedPrecondition if not sealed.
  absl::Status Publish();

  int64_t num_tokens() const { return layout_.num_tokens; }

 private:
  enum class State { kWriting, kSealed, kPublished };

  TokenFileWriter(FileSystem& files, absl::string_view path, const TokenFileLayout& layout);
  absl::Status WriteChunk();
  absl::Status WriteEnd();

  FileSystem& files_;
  const std::string path_;
  const std::string partial_path_;
  TokenFileLayout layout_;
  std::unique_ptr<WritableFile> file_;
  std::string chunk_;      // payload not yet written, less than a chunk of it between calls
  std::string checksums_;  // of the chunks written
  State state_ = State::kWriting;
  absl::Status status_;  // the file system's first error
};

}  // namespace armature

#endif  // ARMATURE_DATA_TOKEN_FILE_WRITER_H_
