#include "armature/data/prepare.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/data/token_file_writer.h"

namespace armature {
namespace {

absl::Status CheckOptions(const PrepareOptions& options) {
  if (options.inputs.empty()) return absl::InvalidArgumentError("no input to prepare");
  if (!(options.validation_fraction >= 0 && options.validation_fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("validation_fraction ", options.validation_fraction, " is not in [0, 1)"));
  }
  if (options.validation_fraction > 0 && options.train_path == options.validation_path) {
    return absl::InvalidArgumentError(
        absl::StrCat("train_path and validation_path are both ", options.train_path));
  }
  if (options.piece_bytes <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("piece_bytes ", options.piece_bytes, " is not positive"));
  }
  return absl::OkStatus();
}

// Encodes `text` piece by piece, cutting only where the tokenizer allows it.
absl::Status AppendText(const Tokenizer& tokenizer, absl::string_view text, size_t piece_bytes,
                        TokenFileWriter& writer) {
  size_t want = piece_bytes;
  while (!text.empty()) {
    absl::string_view piece = text.substr(0, want);
    if (piece.size() < text.size()) piece = piece.substr(0, tokenizer.CutPoint(piece));
    if (piece.empty()) {
      want *= 2;
      continue;
    }
    ARMATURE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer.Encode(piece));
    ARMATURE_RETURN_IF_ERROR(writer.Append(tokens));
    text.remove_prefix(piece.size());
    want = piece_bytes;
  }
  return absl::OkStatus();
}

// The first position from `cut` on that is not inside a UTF-8 character. In bytes that are no UTF-8, `cut`
// itself.
int64_t NextCharacter(absl::string_view text, int64_t cut) {
  constexpr int64_t kMaxContinuationBytes = 3;
  const int64_t size = static_cast<int64_t>(text.size());
  for (int64_t next = cut; cut > 0 && next <= cut + kMaxContinuationBytes; ++next) {
    if (next == size || (text[next] & 0xC0) != 0x80) return next;
  }
  return cut;
}

// Bytes of all inputs together that come before the validation part.
absl::StatusOr<int64_t> TrainBytes(FileSystem& files, const PrepareOptions& options) {
  int64_t total = 0;
  for (const std::string& input : options.inputs) {
    ARMATURE_ASSIGN_OR_RETURN(const FileInfo info, files.Stat(input));
    total += info.size_bytes;
  }
  return total - std::llround(options.validation_fraction * static_cast<double>(total));
}

}  // namespace

absl::StatusOr<PrepareResult> PrepareTokenFiles(FileSystem& files, const Tokenizer& tokenizer,
                                                const PrepareOptions& options) {
  ARMATURE_RETURN_IF_ERROR(CheckOptions(options));
  ARMATURE_ASSIGN_OR_RETURN(int64_t train_bytes, TrainBytes(files, options));
  TokenFileOptions file_options;
  file_options.vocabulary_size = tokenizer.vocabulary_size();
  ARMATURE_ASSIGN_OR_RETURN(const auto train,
                            TokenFileWriter::Create(files, options.train_path, file_options));
  std::unique_ptr<TokenFileWriter> validation;
  if (options.validation_fraction > 0) {
    ARMATURE_ASSIGN_OR_RETURN(validation,
                              TokenFileWriter::Create(files, options.validation_path, file_options));
  }
  for (const std::string& input : options.inputs) {
    ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> mapped, files.Map(input));
    const absl::string_view text = mapped->bytes();
    const int64_t size = static_cast<int64_t>(text.size());
    const int64_t cut = validation == nullptr ? size : NextCharacter(text, std::min(train_bytes, size));
    ARMATURE_RETURN_IF_ERROR(AppendText(tokenizer, text.substr(0, cut), options.piece_bytes, *train), input);
    if (cut < size) {
      ARMATURE_RETURN_IF_ERROR(AppendText(tokenizer, text.substr(cut), options.piece_bytes, *validation),
                               input);
    }
    train_bytes -= std::min(train_bytes, cut);
    if (options.separator.has_value()) {
      TokenFileWriter& last = cut < size ? *validation : *train;
      ARMATURE_RETURN_IF_ERROR(last.Append({*options.separator}), "separator");
    }
  }
  PrepareResult result;
  result.train_tokens = train->num_tokens();
  // Both are whole on disk before either takes its name.
  ARMATURE_RETURN_IF_ERROR(train->Seal());
  if (validation != nullptr) {
    result.validation_tokens = validation->num_tokens();
    ARMATURE_RETURN_IF_ERROR(validation->Seal());
    ARMATURE_RETURN_IF_ERROR(validation->Publish());
  }
  ARMATURE_RETURN_IF_ERROR(train->Publish());
  return result;
}

}  // namespace armature
