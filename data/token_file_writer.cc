#include "armature/data/token_file_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/crc32c.h"
#include "armature/base/status_macros.h"
#include "armature/data/little_endian.h"

namespace armature {
namespace {

std::string DirectoryOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

}  // namespace

TokenFileWriter::TokenFileWriter(FileSystem& files, absl::string_view path, const TokenFileLayout& layout)
    : files_(files), path_(path), partial_path_(absl::StrCat(path, ".partial")), layout_(layout) {}

absl::StatusOr<std::unique_ptr<TokenFileWriter>> TokenFileWriter::Create(FileSystem& files,
                                                                         absl::string_view path,
                                                                         const TokenFileOptions& options) {
  TokenFileLayout layout;
  layout.vocabulary_size = options.vocabulary_size;
  layout.token_bits = options.token_bits;
  if (layout.token_bits == 0) layout.token_bits = options.vocabulary_size <= int64_t{1} << 16 ? 16 : 32;
  ARMATURE_RETURN_IF_ERROR(CheckTokenKind(layout.token_bits, layout.vocabulary_size), path);
  std::unique_ptr<TokenFileWriter> writer(new TokenFileWriter(files, path, layout));
  ARMATURE_ASSIGN_OR_RETURN(writer->file_, files.Create(writer->partial_path_));
  ARMATURE_RETURN_IF_ERROR(writer->file_->Append(EncodeTokenFileHeader(layout)));
  return writer;
}

TokenFileWriter::~TokenFileWriter() {
  // An error here leaves a partial file behind, which no reader takes for a whole one.
  if (file_ != nullptr && state_ != State::kPublished) files_.Remove(partial_path_).IgnoreError();
}

absl::Status TokenFileWriter::Append(absl::Span<const int32_t> tokens) {
  ARMATURE_RETURN_IF_ERROR(status_);
  if (state_ != State::kWriting) return absl::FailedPreconditionError(absl::StrCat(path_, " is sealed"));
  for (int32_t token : tokens) {
    if (token < 0 || token >= layout_.vocabulary_size) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": token ", token, " is outside the vocabulary of ", layout_.vocabulary_size));
    }
  }
  for (int32_t token : tokens) {
    if (layout_.token_bits == 16) {
      AppendLittleEndian(static_cast<uint16_t>(token), chunk_);
    } else {
      AppendLittleEndian(static_cast<uint32_t>(token), chunk_);
    }
    if (static_cast<int64_t>(chunk_.size()) == layout_.chunk_bytes) ARMATURE_RETURN_IF_ERROR(WriteChunk());
  }
  layout_.num_tokens += static_cast<int64_t>(tokens.size());
  return absl::OkStatus();
}

absl::Status TokenFileWriter::WriteChunk() {
  if (chunk_.empty()) return absl::OkStatus();
  AppendLittleEndian<uint32_t>(Crc32c(chunk_), checksums_);
  status_ = file_->Append(chunk_);
  chunk_.clear();
  return status_;
}

absl::Status TokenFileWriter::WriteEnd() {
  ARMATURE_RETURN_IF_ERROR(WriteChunk());
  ARMATURE_RETURN_IF_ERROR(
      file_->Append(absl::StrCat(checksums_, EncodeTokenFileFooter(layout_.num_tokens, checksums_))));
  ARMATURE_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

absl::Status TokenFileWriter::Finish() {
  ARMATURE_RETURN_IF_ERROR(Seal());
  return Publish();
}

absl::Status TokenFileWriter::Seal() {
  ARMATURE_RETURN_IF_ERROR(status_);
  if (state_ != State::kWriting) return absl::FailedPreconditionError(absl::StrCat(path_, " is sealed"));
  status_ = WriteEnd();
  if (status_.ok()) state_ = State::kSealed;
  return status_;
}

absl::Status TokenFileWriter::Publish() {
  ARMATURE_RETURN_IF_ERROR(status_);
  if (state_ != State::kSealed) return absl::FailedPreconditionError(absl::StrCat(path_, " is not sealed"));
  status_ = files_.Rename(partial_path_, path_);
  ARMATURE_RETURN_IF_ERROR(status_);
  state_ = State::kPublished;
  return files_.SyncDirectory(DirectoryOf(path_));
}

}  // namespace armature
