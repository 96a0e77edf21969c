#include "armature/data/token_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <limits>
#include <vector>

#include "armature/base/memory_file_system.h"
#include "armature/base/posix_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/data/little_endian.h"
#include "armature/data/token_file_writer.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

void Write(FileSystem& files, const TokenFileOptions& options, absl::Span<const int32_t> tokens) {
  ASSERT_OK_AND_ASSIGN(const auto writer, TokenFileWriter::Create(files, "a.tokens", options));
  ASSERT_THAT(writer->Append(tokens), IsOk());
  ASSERT_THAT(writer->Finish(), IsOk());
}

// The status of opening a file of these bytes.
absl::Status OpenBytes(absl::string_view bytes) {
  MemoryFileSystem files;
  EXPECT_THAT((*files.Create("bad.tokens"))->Append(bytes), IsOk());
  return TokenFile::Open(files, "bad.tokens").status();
}

std::string SmallFile() {
  MemoryFileSystem files;
  Write(files, {256}, {1, 2, 3});
  return *files.Read("a.tokens");
}

TEST(TokenFile, ReadsWhatWasWrittenInEitherWidth) {
  for (int bits : {0, 16, 32}) {
    MemoryFileSystem files;
    Write(files, {65536, bits}, {0, 65535, 7, 256});
    ASSERT_OK_AND_ASSIGN(const TokenFile file, TokenFile::Open(files, "a.tokens"));
    EXPECT_EQ(file.num_tokens(), 4);
    EXPECT_EQ(file.vocabulary_size(), 65536);
    EXPECT_EQ(file.token_bits(), bits == 0 ? 16 : bits);
    EXPECT_THAT(file.Verify(), IsOk());
    std::vector<int32_t> tokens(3);
    EXPECT_THAT(file.Read(1, absl::MakeSpan(tokens)), IsOk());
    EXPECT_THAT(tokens, ElementsAre(65535, 7, 256));
  }
}

TEST(TokenFile, ALargerVocabularyTakes32Bits) {
  MemoryFileSystem files;
  Write(files, {65537}, {65536});
  ASSERT_OK_AND_ASSIGN(const TokenFile file, TokenFile::Open(files, "a.tokens"));
  EXPECT_EQ(file.token_bits(), 32);
  EXPECT_THAT(file.Verify(), IsOk());
}

TEST(TokenFile, NoTokensIsAFileToo) {
  MemoryFileSystem files;
  Write(files, {10}, {});
  ASSERT_OK_AND_ASSIGN(const TokenFile file, TokenFile::Open(files, "a.tokens"));
  EXPECT_EQ(file.num_tokens(), 0);
  EXPECT_THAT(file.Verify(), IsOk());
}

TEST(TokenFile, ReadingOutsideIsOutOfRange) {
  MemoryFileSystem files;
  Write(files, {10}, {1, 2, 3});
  ASSERT_OK_AND_ASSIGN(const TokenFile file, TokenFile::Open(files, "a.tokens"));
  std::vector<int32_t> tokens(2);
  for (int64_t begin : {int64_t{-1}, int64_t{2}, int64_t{4}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(file.Read(begin, absl::MakeSpan(tokens)),
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("a.tokens")));
  }
  EXPECT_THAT(file.Read(3, {}), IsOk());
}

TEST(TokenFile, ManyChunksAreVerifiedEach) {
  MemoryFileSystem files;
  std::vector<int32_t> tokens(3 * (1 << 19) + 5);  // three whole chunks and a short one
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 1000);
  Write(files, {1000}, tokens);
  ASSERT_OK_AND_ASSIGN(const TokenFile file, TokenFile::Open(files, "a.tokens"));
  EXPECT_THAT(file.Verify(), IsOk());
  std::vector<int32_t> read(tokens.size());
  EXPECT_THAT(file.Read(0, absl::MakeSpan(read)), IsOk());
  EXPECT_EQ(read, tokens);
}

TEST(TokenFile, EachBrokenFileHasItsOwnErrorWithThePath) {
  const std::string good = SmallFile();
  const auto with = [&](size_t offset, absl::string_view bytes) {
    return std::string(good).replace(offset, bytes.size(), bytes.data(), bytes.size());
  };
  const auto is = [](absl::StatusCode code, const char* what) {
    return StatusIs(code, AllOf(HasSubstr("bad.tokens"), HasSubstr(what)));
  };
  EXPECT_THAT(OpenBytes(good), IsOk());
  EXPECT_THAT(OpenBytes(""), is(kDataLoss, "empty"));
  EXPECT_THAT(OpenBytes(good.substr(0, 63)), is(kDataLoss, "63 bytes hold no header"));
  EXPECT_THAT(OpenBytes(good.substr(0, 70)), is(kDataLoss, "70 bytes hold no header and footer"));
  EXPECT_THAT(OpenBytes(good.substr(0, good.size() - 1)),
              is(kDataLoss, "cut short or followed by other bytes"));
  EXPECT_THAT(OpenBytes(good + "x"), is(kDataLoss, "cut short or followed by other bytes"));
  EXPECT_THAT(OpenBytes(good.substr(0, 64) + good.substr(66)),
              is(kDataLoss, "3 tokens, which do not fill 104 bytes"));
  EXPECT_THAT(OpenBytes(with(0, "B")), is(kInvalidArgument, "does not begin with ARMTOKEN"));
  EXPECT_THAT(OpenBytes(with(8, "\2")), is(absl::StatusCode::kUnimplemented, "version 2"));
  EXPECT_THAT(OpenBytes(with(16, "\1")), is(kDataLoss, "header does not match"));
  EXPECT_THAT(OpenBytes(with(good.size() - 32, "\4")), is(kDataLoss, "footer does not match"));
  EXPECT_THAT(OpenBytes(with(70, "xxxx")), is(kDataLoss, "table of checksums"));
}

TEST(TokenFile, HeadersThatAreWholeButImpossibleAreRefused) {
  const std::string rest = SmallFile().substr(kTokenFileHeaderBytes);
  const auto open = [&](int bits, int64_t vocabulary_size, int64_t chunk_bytes) {
    TokenFileLayout layout;
    layout.token_bits = bits;
    layout.vocabulary_size = vocabulary_size;
    layout.chunk_bytes = chunk_bytes;
    return OpenBytes(EncodeTokenFileHeader(layout) + rest);
  };
  EXPECT_THAT(open(16, 256, 1 << 20), IsOk());
  EXPECT_THAT(open(8, 256, 1 << 20), StatusIs(kInvalidArgument, HasSubstr("tokens of 8 bits")));
  EXPECT_THAT(open(16, 65537, 1 << 20), StatusIs(kInvalidArgument, HasSubstr("65537")));
  EXPECT_THAT(open(32, int64_t{1} << 31, 1 << 20), StatusIs(kInvalidArgument));
  EXPECT_THAT(open(16, 0, 1 << 20), StatusIs(kInvalidArgument));
  EXPECT_THAT(open(16, -1, 1 << 20), StatusIs(kInvalidArgument));
  EXPECT_THAT(open(16, 256, 0), StatusIs(kInvalidArgument, HasSubstr("chunks of 0 bytes")));
  EXPECT_THAT(open(32, 256, 6), StatusIs(kInvalidArgument, HasSubstr("chunks of 6 bytes")));
}

TEST(TokenFile, CountsThatOverflowAreRefused) {
  const std::string head = SmallFile().substr(0, 70);
  for (int64_t count : {int64_t{-1}, int64_t{1} << 62, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(OpenBytes(head + EncodeTokenFileFooter(count, "")),
                StatusIs(kDataLoss, HasSubstr("do not fill")));
  }
}

TEST(TokenFile, TokensOutsideTheVocabularyAreFound) {
  for (int bits : {16, 32}) {
    MemoryFileSystem files;
    Write(files, {300, bits}, {1, 299, 3});
    std::string bytes = *files.Read("a.tokens");
    // The same payload, checksums included, under a header with a smaller vocabulary.
    TokenFileLayout layout;
    layout.token_bits = bits;
    layout.vocabulary_size = 299;
    bytes.replace(0, kTokenFileHeaderBytes, EncodeTokenFileHeader(layout));
    ASSERT_THAT((*files.Create("bad"))->Append(bytes), IsOk());
    ASSERT_OK_AND_ASSIGN(const TokenFile file, TokenFile::Open(files, "bad"));
    const auto is_found =
        StatusIs(kDataLoss, HasSubstr("bad: token 299 at position 1 is outside the vocabulary of 299"));
    EXPECT_THAT(file.Verify(), is_found);
    std::vector<int32_t> tokens(2);
    EXPECT_THAT(file.Read(0, absl::MakeSpan(tokens)), is_found);
  }
}

TEST(TokenFile, AnAbsentFileIsNotFound) {
  MemoryFileSystem files;
  EXPECT_THAT(TokenFile::Open(files, "absent"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
}

TEST(TokenFile, ReadsBeyondFourGibibytes) {
  std::string path = ::testing::TempDir() + "/sparse_XXXXXX";
  const int fd = ::mkstemp(&path[0]);
  ASSERT_GE(fd, 0);
  TokenFileLayout layout;
  layout.token_bits = 32;
  layout.vocabulary_size = 1000;
  layout.num_tokens = (int64_t{5} << 30) / 4 + 3;
  const std::string header = EncodeTokenFileHeader(layout);
  std::string payload_end;
  for (uint32_t token : {11u, 12u, 13u}) AppendLittleEndian(token, payload_end);
  // Opening does not read the payload, so its checksums may be wrong here; Verify would say so.
  std::string tail(4 * layout.num_chunks(), '\0');
  tail += EncodeTokenFileFooter(layout.num_tokens, tail);
  // Between header and end is a hole, which takes no disk.
  ASSERT_EQ(::pwrite(fd, header.data(), header.size(), 0), header.size());
  ASSERT_EQ(::pwrite(fd, payload_end.data(), 12, layout.checksums_offset() - 12), 12);
  ASSERT_EQ(::pwrite(fd, tail.data(), tail.size(), layout.checksums_offset()), tail.size());
  ::close(fd);

  PosixFileSystem files;
  ASSERT_OK_AND_ASSIGN(const TokenFile file, TokenFile::Open(files, path));
  ASSERT_EQ(file.num_tokens(), layout.num_tokens);
  std::vector<int32_t> tokens(4);
  EXPECT_THAT(file.Read(layout.num_tokens - 4, absl::MakeSpan(tokens)), IsOk());
  EXPECT_THAT(tokens, ElementsAre(0, 11, 12, 13));
  EXPECT_THAT(files.Remove(path), IsOk());
}

}  // namespace
}  // namespace armature
