#include "armature/data/token_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/crc32c.h"
#include "armature/base/status_macros.h"
#include "armature/data/little_endian.h"

namespace armature {
namespace {

// Widens out.size() tokens; returns whether all are in the vocabulary.
template <typename Token>
bool Widen(const char* bytes, int64_t vocabulary_size, absl::Span<int32_t> out) {
  Token largest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const Token token = LoadLittleEndian<Token>(bytes + i * sizeof(Token));
    largest = std::max(largest, token);
    out[i] = static_cast<int32_t>(token);
  }
  return static_cast<int64_t>(largest) < vocabulary_size;
}

bool Widen(const char* bytes, const TokenFileLayout& layout, absl::Span<int32_t> out) {
  return layout.token_bits == 16 ? Widen<uint16_t>(bytes, layout.vocabulary_size, out)
                                 : Widen<uint32_t>(bytes, layout.vocabulary_size, out);
}

}  // namespace

absl::StatusOr<TokenFile> TokenFile::Open(FileSystem& files, absl::string_view path) {
  ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapped, files.Map(path));
  ARMATURE_ASSIGN_OR_RETURN(const TokenFileLayout layout, ParseTokenFile(mapped->bytes()), path);
  return TokenFile(std::string(path), std::move(mapped), layout);
}

const char* TokenFile::At(int64_t position) const {
  return mapped_->bytes().data() + kTokenFileHeaderBytes + position * layout_.token_bytes();
}

absl::Status TokenFile::OutsideVocabulary(int64_t begin, int64_t count) const {
  for (int64_t position = begin; position < begin + count; ++position) {
    int32_t token = 0;
    if (Widen(At(position), layout_, absl::MakeSpan(&token, 1))) continue;
    return absl::DataLossError(absl::StrCat(path_, ": token ", static_cast<uint32_t>(token), " at position ",
                                            position, " is outside the vocabulary of ",
                                            layout_.vocabulary_size));
  }
  return absl::DataLossError(absl::StrCat(path_, " changed while it was read"));
}

absl::Status TokenFile::Read(int64_t begin, absl::Span<int32_t> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  if (begin < 0 || begin > num_tokens() || count > num_tokens() - begin) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": ", count, " tokens from position ", begin, " of ",
                                              num_tokens(), " were asked for"));
  }
  if (!Widen(At(begin), layout_, out)) return OutsideVocabulary(begin, count);
  return absl::OkStatus();
}

absl::Status TokenFile::Verify() const {
  const absl::string_view file = mapped_->bytes();
  const absl::string_view payload = file.substr(kTokenFileHeaderBytes, layout_.payload_bytes());
  std::vector<int32_t> tokens;
  for (int64_t chunk = 0; chunk < layout_.num_chunks(); ++chunk) {
    const absl::string_view bytes = payload.substr(chunk * layout_.chunk_bytes, layout_.chunk_bytes);
    const int64_t begin = chunk * layout_.chunk_bytes / layout_.token_bytes();
    tokens.resize(bytes.size() / layout_.token_bytes());
    if (LoadLittleEndian<uint32_t>(&file[layout_.checksums_offset() + 4 * chunk]) != Crc32c(bytes)) {
      return absl::DataLossError(absl::StrCat(path_, ": tokens ", begin, " to ", begin + tokens.size() - 1,
                                              " do not match their checksum"));
    }
    ARMATURE_RETURN_IF_ERROR(Read(begin, absl::MakeSpan(tokens)));
  }
  return absl::OkStatus();
}

}  // namespace armature
