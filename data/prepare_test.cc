#include "armature/data/prepare.h"

#include <limits>
#include <utility>

#include "armature/base/faulty_file_system.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/data/byte_tokenizer.h"
#include "armature/data/token_file.h"

namespace armature {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

// Words of letters, each one token (its length); spaces end words. Cutting inside a word would change the
// tokens.
class WordLengthTokenizer final : public Tokenizer {
 public:
  int64_t vocabulary_size() const override { return 100; }
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const override {
    std::vector<int32_t> tokens;
    int32_t length = 0;
    for (char letter : text) {
      if (letter == '!') return absl::InvalidArgumentError("no token for \"!\"");
      if (letter != ' ') ++length;
      if (letter == ' ' && length > 0) tokens.push_back(std::exchange(length, 0));
    }
    if (length > 0) tokens.push_back(length);
    return tokens;
  }
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t>) const override {
    return absl::UnimplementedError("lengths are no words");
  }
  size_t CutPoint(absl::string_view text) const override { return text.rfind(' ') + 1; }
};

void WriteText(FileSystem& files, const std::string& path, absl::string_view text) {
  ASSERT_THAT((*files.Create(path))->Append(text), IsOk());
}

std::vector<int32_t> ReadTokens(FileSystem& files, const std::string& path) {
  const absl::StatusOr<TokenFile> file = TokenFile::Open(files, path);
  EXPECT_THAT(file, IsOk());
  if (!file.ok()) return {};
  std::vector<int32_t> tokens(file->num_tokens());
  EXPECT_THAT(file->Read(0, absl::MakeSpan(tokens)), IsOk());
  EXPECT_THAT(file->Verify(), IsOk());
  return tokens;
}

std::string ReadText(FileSystem& files, const std::string& path) {
  return *ByteTokenizer().Decode(ReadTokens(files, path));
}

PrepareOptions Options(std::vector<std::string> inputs, double validation_fraction) {
  PrepareOptions options;
  options.inputs = std::move(inputs);
  options.train_path = "train";
  options.validation_path = "validation";
  options.validation_fraction = validation_fraction;
  return options;
}

TEST(Prepare, TheTailOfAllInputsIsValidation) {
  MemoryFileSystem files;
  WriteText(files, "one", "abcdef");
  WriteText(files, "empty", "");
  WriteText(files, "two", "ghij");
  for (int tail = 0; tail < 10; ++tail) {
    ASSERT_OK_AND_ASSIGN(
        const PrepareResult result,
        PrepareTokenFiles(files, ByteTokenizer(), Options({"one", "empty", "two"}, tail / 10.0)));
    EXPECT_EQ(result.train_tokens, 10 - tail);
    EXPECT_EQ(result.validation_tokens, tail);
    EXPECT_EQ(ReadText(files, "train"), std::string("abcdefghij").substr(0, 10 - tail));
    if (tail > 0) {
      EXPECT_EQ(ReadText(files, "validation"), std::string("abcdefghij").substr(10 - tail));
    }
  }
  EXPECT_THAT(files.List(""), IsOkAndHolds(ElementsAre("empty", "one", "train", "two", "validation")));
}

TEST(Prepare, WithoutAFractionThereIsNoValidationFile) {
  MemoryFileSystem files;
  WriteText(files, "text", "abc");
  ASSERT_THAT(PrepareTokenFiles(files, ByteTokenizer(), Options({"text"}, 0)), IsOk());
  EXPECT_THAT(files.List(""), IsOkAndHolds(Not(Contains("validation"))));
}

TEST(Prepare, TheSplitFallsBetweenCharacters) {
  MemoryFileSystem files;
  WriteText(files, "text", "a€b");  // 1 + 3 + 1 bytes
  ASSERT_THAT(PrepareTokenFiles(files, ByteTokenizer(), Options({"text"}, 0.6)), IsOk());
  EXPECT_EQ(ReadText(files, "train"), "a€");
  EXPECT_EQ(ReadText(files, "validation"), "b");
}

TEST(Prepare, BytesThatAreNoTextAreSplitWhereAsked) {
  MemoryFileSystem files;
  WriteText(files, "bytes", std::string(100, '\x80'));
  ASSERT_THAT(PrepareTokenFiles(files, ByteTokenizer(), Options({"bytes"}, 0.25)), IsOk());
  EXPECT_EQ(ReadText(files, "train").size(), 75);
}

TEST(Prepare, PiecesChangeNoToken) {
  MemoryFileSystem files;
  WriteText(files, "text", "a bb ccc dddddddddddd e  ffff ");
  PrepareOptions options = Options({"text"}, 0);
  for (int64_t piece_bytes : {1, 2, 3, 5, 1000}) {
    options.piece_bytes = piece_bytes;
    ASSERT_THAT(PrepareTokenFiles(files, WordLengthTokenizer(), options), IsOk());
    EXPECT_THAT(ReadTokens(files, "train"), ElementsAre(1, 2, 3, 12, 1, 4)) << piece_bytes;
  }
}

TEST(Prepare, ASeparatorFollowsEachInput) {
  MemoryFileSystem files;
  WriteText(files, "one", "abcdef");
  WriteText(files, "two", "gh");
  PrepareOptions options = Options({"one", "two"}, 0.5);
  options.separator = '|';
  ASSERT_THAT(PrepareTokenFiles(files, ByteTokenizer(), options), IsOk());
  EXPECT_EQ(ReadText(files, "train"), "abcd");
  EXPECT_EQ(ReadText(files, "validation"), "ef|gh|");
  options.separator = 256;
  EXPECT_THAT(PrepareTokenFiles(files, ByteTokenizer(), options),
              StatusIs(kInvalidArgument, HasSubstr("separator")));
}

TEST(Prepare, BadOptionsAreNamed) {
  MemoryFileSystem files;
  WriteText(files, "text", "abc");
  const auto prepare = [&](const PrepareOptions& options) {
    return PrepareTokenFiles(files, ByteTokenizer(), options);
  };
  EXPECT_THAT(prepare(Options({}, 0.1)), StatusIs(kInvalidArgument, HasSubstr("no input")));
  for (double fraction : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(prepare(Options({"text"}, fraction)),
                StatusIs(kInvalidArgument, HasSubstr("validation_fraction")));
  }
  PrepareOptions same = Options({"text"}, 0.5);
  same.validation_path = same.train_path;
  EXPECT_THAT(prepare(same), StatusIs(kInvalidArgument, HasSubstr("both train")));
  PrepareOptions pieces = Options({"text"}, 0.5);
  pieces.piece_bytes = 0;
  EXPECT_THAT(prepare(pieces), StatusIs(kInvalidArgument, HasSubstr("piece_bytes")));
  EXPECT_THAT(files.List(""), IsOkAndHolds(ElementsAre("text")));
}

TEST(Prepare, AnErrorNamesTheInputAndLeavesNothing) {
  MemoryFileSystem files;
  WriteText(files, "good", "a b");
  WriteText(files, "bad", "c ! d");
  EXPECT_THAT(PrepareTokenFiles(files, WordLengthTokenizer(), Options({"good", "bad"}, 0.1)),
              StatusIs(kInvalidArgument, HasSubstr("bad: no token")));
  EXPECT_THAT(PrepareTokenFiles(files, WordLengthTokenizer(), Options({"good", "absent"}, 0.1)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
  EXPECT_THAT(files.List(""), IsOkAndHolds(ElementsAre("bad", "good")));
}

TEST(Prepare, AFaultAnywhereLeavesWholeFilesOrNone) {
  for (int64_t point = 0;; ++point) {
    MemoryFileSystem memory;
    WriteText(memory, "text", "abcdefghij");
    FaultPlan plan;
    plan.fail_at = point;
    plan.torn_bytes = 3;
    FaultyFileSystem files(memory, plan);
    const absl::Status status = PrepareTokenFiles(files, ByteTokenizer(), Options({"text"}, 0.5)).status();
    EXPECT_EQ(status.ok(), !files.fault_happened());
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, memory.List(""));
    for (const std::string& name : names) {
      if (name == "train") {
        EXPECT_EQ(ReadText(memory, name), "abcde");
      }
      if (name == "validation") {
        EXPECT_EQ(ReadText(memory, name), "fghij");
      }
      EXPECT_THAT(name, Not(HasSubstr("partial")));
    }
    if (status.ok()) break;
  }
}

}  // namespace
}  // namespace armature
