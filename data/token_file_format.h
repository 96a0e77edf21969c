// The bytes of a token file: one long sequence of tokens, with what is needed to trust it. Little endian
// throughout.
//
//   offset  bytes  header
//   0       8      "ARMTOKEN"
//   8       4      version: 1
//   12      4      bits of a token: 16 or 32
//   16      8      vocabulary size; every token is below it
//   24      4      bytes of a chunk
//   28      32     zeros
//   60      4      CRC-32C of the 60 bytes before
//   64             payload: the tokens
//                  checksums: for each chunk of the payload (the last may be short) its CRC-32C, 4 bytes
//                  footer
//   0       8      number of tokens
//   8       4      CRC-32C of the checksums
//   12      8      zeros
//   20      8      "TOKENEND"
//   28      4      CRC-32C of the footer's 28 bytes before
//
// What is known only at the end stands at the end, so that a file can be written as a stream and on stores
// that only append. Opening reads header, checksums and footer, never the payload: 4 KiB of checksums for 1
// GiB of tokens.
#ifndef ARMATURE_DATA_TOKEN_FILE_FORMAT_H_
#define ARMATURE_DATA_TOKEN_FILE_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace armature {

constexpr int64_t kTokenFileHeaderBytes = 64;
constexpr int64_t kTokenFileFooterBytes = 32;

struct TokenFileLayout {
  int token_bits = 16;
  int64_t vocabulary_size = 0;
  int64_t chunk_bytes = 1 << 20;
  int64_t num_tokens = 0;

  int64_t token_bytes() const { return token_bits / 8; }
  int64_t payload_bytes() const { return num_tokens * token_bytes(); }
  int64_t num_chunks() const { return (payload_bytes() + chunk_bytes - 1) / chunk_bytes; }
  int64_t checksums_offset() const { return kTokenFileHeaderBytes + payload_bytes(); }
  int64_t file_bytes() const { return checksums_offset() + 4 * num_chunks() + kTokenFileFooterBytes; }
};

// Errors: InvalidArgument if token_bits is neither 16 nor 32, or the vocabulary is empty or has more tokens
// than fit token_bits or an int32_t.
absl::Status CheckTokenKind(int token_bits, int64_t vocabulary_size);

// All but num_tokens.
std::string EncodeTokenFileHeader(const TokenFileLayout& layout);
// `checksums` are those of the chunks, as they stand in the file.
std::string EncodeTokenFileFooter(int64_t num_tokens, absl::string_view checksums);

// The layout of a whole file.
// Errors: DataLoss if the file is empty, cut short, followed by other bytes, or a checksum of header, footer
// or checksums is wrong; InvalidArgument if it is no token file or its token kind is impossible;
// Unimplemented for another version.
absl::StatusOr<TokenFileLayout> ParseTokenFile(absl::string_view file);

}  // namespace armature

#endif  // ARMATURE_DATA_TOKEN_FILE_FORMAT_H_
