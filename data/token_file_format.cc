#include "armature/data/token_file_format.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "armature/base/crc32c.h"
#include "armature/base/status_macros.h"
#include "armature/data/little_endian.h"

namespace armature {
namespace {

constexpr absl::string_view kHeaderMagic = "ARMTOKEN";
constexpr absl::string_view kFooterMagic = "TOKENEND";
constexpr uint32_t kVersion = 1;

void AppendChecksum(std::string& bytes) { AppendLittleEndian<uint32_t>(Crc32c(bytes), bytes); }

bool EndsWithChecksum(absl::string_view bytes) {
  const absl::string_view body = bytes.substr(0, bytes.size() - 4);
  return LoadLittleEndian<uint32_t>(bytes.data() + body.size()) == Crc32c(body);
}

absl::StatusOr<TokenFileLayout> ParseHeader(absl::string_view header) {
  if (header.substr(0, kHeaderMagic.size()) != kHeaderMagic) {
    return absl::InvalidArgumentError("not a token file: it does not begin with ARMTOKEN");
  }
  const uint32_t version = LoadLittleEndian<uint32_t>(&header[8]);
  if (version != kVersion) {
    return absl::UnimplementedError(
        absl::StrCat("token file version ", version, "; this build reads ", kVersion));
  }
  if (!EndsWithChecksum(header)) return absl::DataLossError("the header does not match its checksum");
  TokenFileLayout layout;
  const uint32_t bits = LoadLittleEndian<uint32_t>(&header[12]);
  const uint64_t vocabulary_size = LoadLittleEndian<uint64_t>(&header[16]);
  // What an int cannot hold is no valid number of bits or tokens either.
  layout.token_bits = bits > 64 ? 0 : static_cast<int>(bits);
  layout.vocabulary_size = static_cast<int64_t>(vocabulary_size);
  layout.chunk_bytes = LoadLittleEndian<uint32_t>(&header[24]);
  ARMATURE_RETURN_IF_ERROR(CheckTokenKind(layout.token_bits, layout.vocabulary_size));
  if (layout.chunk_bytes == 0 || layout.chunk_bytes % layout.token_bytes() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunks of ", layout.chunk_bytes, " bytes hold no whole number of tokens"));
  }
  return layout;
}

}  // namespace

absl::Status CheckTokenKind(int token_bits, int64_t vocabulary_size) {
  if (token_bits != 16 && token_bits != 32) {
    return absl::InvalidArgumentError(absl::StrCat("tokens of ", token_bits, " bits; known are 16 and 32"));
  }
  const int64_t limit = token_bits == 16 ? int64_t{1} << 16 : std::numeric_limits<int32_t>::max();
  if (vocabulary_size <= 0 || vocabulary_size > limit) {
    return absl::InvalidArgumentError(absl::StrCat("a vocabulary of ", vocabulary_size, " tokens; tokens of ",
                                                   token_bits, " bits allow 1 to ", limit));
  }
  return absl::OkStatus();
}

std::string EncodeTokenFileHeader(const TokenFileLayout& layout) {
  std::string header(kHeaderMagic);
  AppendLittleEndian<uint32_t>(kVersion, header);
  AppendLittleEndian<uint32_t>(layout.token_bits, header);
  AppendLittleEndian<uint64_t>(layout.vocabulary_size, header);
  AppendLittleEndian<uint32_t>(layout.chunk_bytes, header);
  header.resize(kTokenFileHeaderBytes - 4, '\0');
  AppendChecksum(header);
  return header;
}

std::string EncodeTokenFileFooter(int64_t num_tokens, absl::string_view checksums) {
  std::string footer;
  AppendLittleEndian<uint64_t>(num_tokens, footer);
  AppendLittleEndian<uint32_t>(Crc32c(checksums), footer);
  footer.resize(20, '\0');
  footer.append(kFooterMagic.data(), kFooterMagic.size());
  AppendChecksum(footer);
  return footer;
}

absl::StatusOr<TokenFileLayout> ParseTokenFile(absl::string_view file) {
  if (file.empty()) return absl::DataLossError("the file is empty");
  if (file.size() < static_cast<size_t>(kTokenFileHeaderBytes)) {
    return absl::DataLossError(absl::StrCat("cut short: ", file.size(), " bytes hold no header"));
  }
  ARMATURE_ASSIGN_OR_RETURN(TokenFileLayout layout, ParseHeader(file.substr(0, kTokenFileHeaderBytes)));
  const int64_t size = static_cast<int64_t>(file.size());
  if (size < kTokenFileHeaderBytes + kTokenFileFooterBytes) {
    return absl::DataLossError(absl::StrCat("cut short: ", size, " bytes hold no header and footer"));
  }
  const absl::string_view footer = file.substr(size - kTokenFileFooterBytes);
  if (footer.substr(20, kFooterMagic.size()) != kFooterMagic) {
    return absl::DataLossError("cut short or followed by other bytes: it does not end with a footer");
  }
  if (!EndsWithChecksum(footer)) return absl::DataLossError("the footer does not match its checksum");
  const uint64_t num_tokens = LoadLittleEndian<uint64_t>(&footer[0]);
  // The first test keeps the arithmetic of the second from overflowing.
  if (num_tokens <= file.size()) layout.num_tokens = static_cast<int64_t>(num_tokens);
  if (num_tokens > file.size() || layout.file_bytes() != size) {
    return absl::DataLossError(
        absl::StrCat("the footer speaks of ", num_tokens, " tokens, which do not fill ", size, " bytes"));
  }
  const absl::string_view checksums = file.substr(layout.checksums_offset(), 4 * layout.num_chunks());
  if (LoadLittleEndian<uint32_t>(&footer[8]) != Crc32c(checksums)) {
    return absl::DataLossError("the table of checksums does not match its checksum");
  }
  return layout;
}

}  // namespace armature
