#include "armature/checkpoint/safetensors_reader.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string Length(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

std::string File(const std::string& json, int64_t data_bytes) {
  return Length(json.size()) + json + std::string(data_bytes, 'd');
}

std::string Tensor(const std::string& name, const std::string& shape, const std::string& offsets,
                   const std::string& dtype = "F32") {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                      ",\"data_offsets\":", offsets, "}");
}

// Reads from an allocation of exactly the file's size, so that a sanitizer sees a read past either end.
absl::StatusOr<SafetensorsIndex> Read(const std::string& file) {
  const std::unique_ptr<char[]> exact(new char[file.size()]);
  std::copy(file.begin(), file.end(), exact.get());
  return ReadSafetensorsIndex(absl::string_view(exact.get(), file.size()));
}

TEST(SafetensorsReader, AcceptsAnEmptyHeaderWithTrailingBlanks) {
  ASSERT_OK_AND_ASSIGN(const SafetensorsIndex index, Read(File("{}      ", 0)));
  EXPECT_TRUE(index.tensors.empty());
  EXPECT_TRUE(index.metadata.empty());
}

TEST(SafetensorsReader, AcceptsMetadata) {
  ASSERT_OK_AND_ASSIGN(const SafetensorsIndex index,
                       Read(File(R"({"__metadata__":{"format":"pt","by":"é"}})", 0)));
  EXPECT_THAT(index.metadata, ElementsAre(Pair("by", "é"), Pair("format", "pt")));
}

TEST(SafetensorsReader, AcceptsAScalar) {
  const std::string file = File("{" + Tensor("s", "[]", "[0,4]") + "}", 4);
  ASSERT_OK_AND_ASSIGN(const SafetensorsIndex index, Read(file));
  ASSERT_EQ(index.tensors.size(), 1u);
  EXPECT_EQ(index.tensors[0].name, "s");
  EXPECT_EQ(index.tensors[0].shape, Shape());
  EXPECT_EQ(index.tensors[0].dtype, DType::kF32);
  EXPECT_EQ(BytesOf(index.tensors[0], file), "dddd");
}

TEST(SafetensorsReader, AcceptsATensorWithoutData) {
  ASSERT_OK_AND_ASSIGN(const SafetensorsIndex index,
                       Read(File("{" + Tensor("e", "[2,0]", "[0,0]") + "}", 0)));
  EXPECT_EQ(index.tensors[0].shape, (Shape{2, 0}));
  EXPECT_EQ(index.tensors[0].size_bytes, 0);
}

TEST(SafetensorsReader, ListsTensorsInTheOrderOfTheirData) {
  const std::string file =
      File("{" + Tensor("late", "[2]", "[3,7]", "BF16") + "," + Tensor("none", "[0]", "[3,3]") + "," +
               Tensor("early", "[3]", "[0,3]", "BOOL") + "}",
           7);
  ASSERT_OK_AND_ASSIGN(const SafetensorsIndex index, Read(file));
  std::vector<std::string> names;
  for (const SafetensorsEntry& tensor : index.tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("early", "none", "late"));
  EXPECT_EQ(index.tensors[2].offset_bytes, static_cast<int64_t>(file.size()) - 4);
}

TEST(SafetensorsReader, ReadsAFileOfTheReferenceWriter) {
  std::ifstream in("checkpoint/testdata/written_by_python.safetensors", std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  ASSERT_OK_AND_ASSIGN(const SafetensorsIndex index, Read(file));
  ASSERT_EQ(index.tensors.size(), 6u);
  EXPECT_EQ(index.tensors[0].name, "after.a");
  EXPECT_EQ(index.tensors[0].shape, (Shape{12, 5, 7}));
  EXPECT_EQ(index.tensors[5].name, "init.b");
  EXPECT_EQ(index.tensors[5].shape, (Shape{9}));
}

struct Broken {
  std::string what;
  std::string file;
  std::string error;
};

std::vector<Broken> Corpus() {
  const std::string two_by_two = Tensor("w", "[2,2]", "[0,16]");
  const std::string good = File("{" + two_by_two + "}", 16);
  return {
      {"an empty file", "", "the file is empty"},
      {"7 bytes", std::string(7, '\0'), "ends in its header length"},
      {"8 bytes only", Length(2), "runs past the end of the file, which has 0 more"},
      {"no header", Length(0), "the header is empty"},
      {"a header past the end", Length(100) + "{}", "a header of 100 bytes runs past the end"},
      {"a header over the limit", Length(100'000'001) + "{}", "over the limit of 100000000"},
      {"the longest length", Length(~uint64_t{0}) + "{}", "over the limit of 100000000"},
      {"bytes that are not UTF-8", File("{\"a\xFF\":1}", 0), "not UTF-8 at its byte 3"},
      {"{ alone", File("{", 0), "not JSON: syntax error at its byte 2"},
      {"an array", File("[]", 0), "does not begin with {"},
      {"a byte order mark", File("\xEF\xBB\xBF{}", 0), "does not begin with {"},
      {"a second value", File("{}{}", 0), "not JSON: syntax error at its byte 3"},
      {"a size other than shape and dtype say", File("{" + Tensor("w", "[2,2]", "[0,12]") + "}", 12),
       "hold 12 bytes, but shape [2, 2] of f32 needs 16"},
      {"elements that overflow", File("{" + Tensor("w", "[4294967296,4294967296]", "[0,0]") + "}", 0),
       "more than 2^63-1 elements"},
      {"elements that overflow before a 0",
       File("{" + Tensor("w", "[4294967296,4294967296,0]", "[0,0]") + "}", 0), "more than 2^63-1 elements"},
      {"bytes that overflow", File("{" + Tensor("w", "[4611686018427387904]", "[0,0]") + "}", 0),
       "more than 2^63-1 bytes"},
      {"an extent over int64", File("{" + Tensor("w", "[9223372036854775808]", "[0,0]") + "}", 0),
       "9223372036854775808 in shape of tensor \"w\" is not a whole number"},
      {"an extent over uint64", File("{" + Tensor("w", "[98223372036854775808]", "[0,0]") + "}", 0),
       "is not a whole number"},
      {"a negative extent", File("{" + Tensor("w", "[-1]", "[0,0]") + "}", 0),
       "-1 in shape of tensor \"w\" is not a whole number"},
      {"a fractional offset", File("{" + Tensor("w", "[1]", "[0,4.0]") + "}", 4),
       "4.0 in data_offsets of tensor \"w\" is not a whole number"},
      {"too many dimensions", File("{" + Tensor("w", "[1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", 4),
       "more than 8 dimensions"},
      {"hundreds of dimensions", File("{" + Tensor("w", "[1,1,1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", 4),
       "more than 8 numbers"},
      {"data short by 2", good.substr(0, good.size() - 2), "the data is cut short"},
      {"trailing bytes", good + "xyz", "3 bytes follow the last tensor"},
      {"overlapping tensors", File("{" + two_by_two + "," + Tensor("v", "[2]", "[12,20]") + "}", 20),
       "overlaps the one before"},
      {"the same data twice", File("{" + two_by_two + "," + Tensor("v", "[4]", "[0,16]") + "}", 16),
       "overlaps the one before"},
      {"a hole", File("{" + two_by_two + "," + Tensor("v", "[2]", "[20,28]") + "}", 28),
       "a hole of 4 bytes lies before tensor \"v\""},
      {"a hole at the start", File("{" + Tensor("v", "[2]", "[8,16]") + "}", 16), "a hole of 8 bytes"},
      {"begin over end", File("{" + Tensor("w", "[2,2]", "[16,0]") + "}", 16),
       "data_offsets [16, 0] run backwards"},
      {"a tensor twice", File("{" + two_by_two + "," + Tensor("w", "[1]", "[16,20]") + "}", 20),
       "key \"w\" stands twice in the header"},
      {"a tensor twice under two spellings",
       File("{" + two_by_two + "," + Tensor("\\u0077", "[1]", "[16,20]") + "}", 20),
       "key \"w\" stands twice in the header"},
      {"a field twice", File(R"({"w":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4),
       "key \"dtype\" stands twice"},
      {"metadata twice", File(R"({"__metadata__":{},"__metadata__":{}})", 0),
       "key \"__metadata__\" stands twice"},
      {"a key of metadata twice", File(R"({"__metadata__":{"a":"1","a":"2"}})", 0),
       "key \"a\" stands twice in __metadata__"},
      {"an unknown dtype", File("{" + Tensor("w", "[1]", "[0,4]", "F31") + "}", 4),
       "tensor \"w\": unknown dtype \"F31\""},
      {"a dtype that is not supported", File("{" + Tensor("w", "[4]", "[0,4]", "F8_E4M3") + "}", 4),
       "unknown dtype \"F8_E4M3\""},
      {"a missing field", File(R"({"w":{"dtype":"F32","shape":[]}})", 0),
       "tensor \"w\" lacks dtype, shape or data_offsets"},
      {"an unknown field", File(R"({"w":{"strides":[1]}})", 0), "unknown field \"strides\""},
      {"one offset", File("{" + Tensor("w", "[]", "[4]") + "}", 4), "are not two numbers"},
      {"three offsets", File("{" + Tensor("w", "[]", "[0,4,4]") + "}", 4), "are not two numbers"},
      {"a tensor that is a number", File(R"({"w":3})", 0), "a number where the format has none"},
      {"a tensor that is an array", File(R"({"w":[]})", 0), "an array where the format has none"},
      {"a null", File(R"({"w":null})", 0), "null where the format has none"},
      {"metadata that is not text", File(R"({"__metadata__":{"a":1}})", 0),
       "a number where the format has none, in __metadata__"},
      {"deep nesting", File(R"({"w":{"shape":[[[[[[)", 0), "an array where the format has none"},
  };
}

TEST(SafetensorsReader, RejectsEachBrokenFileWithItsOwnError) {
  for (const Broken& broken : Corpus()) {
    EXPECT_THAT(Read(broken.file), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(broken.error)))
        << broken.what;
  }
}

TEST(SafetensorsReader, SurvivesEveryCut) {
  const std::string good =
      File("{" + Tensor("w", "[2,2]", "[0,16]") + "," + Tensor("v", "[]", "[16,18]", "F16") + "}", 18);
  ASSERT_THAT(Read(good), IsOk());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(Read(good.substr(0, size)), StatusIs(absl::StatusCode::kInvalidArgument)) << size;
  }
}

// Whatever is accepted must lie in the file and be as large as its shape says.
void CheckIndex(const std::string& file) {
  const absl::StatusOr<SafetensorsIndex> index = Read(file);
  if (!index.ok()) return;
  for (const SafetensorsEntry& tensor : index->tensors) {
    ASSERT_GE(tensor.offset_bytes, 8);
    ASSERT_LE(tensor.offset_bytes + tensor.size_bytes, static_cast<int64_t>(file.size()));
    ASSERT_EQ(tensor.size_bytes, tensor.shape.num_elements() * SizeOf(tensor.dtype));
  }
}

TEST(SafetensorsReader, SurvivesMutatedBytes) {
  const std::string good =
      File(R"({"__metadata__":{"format":"pt"},)" + Tensor("w", "[2,2]", "[0,16]") + "," +
               Tensor("e", "[3,0]", "[16,16]", "I64") + "," + Tensor("v", "[]", "[16,18]", "F16") + "}",
           18);
  const size_t header_bytes = good.size() - 18;
  for (size_t i = 0; i < header_bytes; ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string mutant = good;
      mutant[i] = static_cast<char>(byte);
      CheckIndex(mutant);
    }
  }
  const std::string alphabet = "{}[]\",:0129-e.\\u \xC3\xFF";
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string mutant = good;
    for (int changes = 1 + static_cast<int>(random() % 4); changes > 0; --changes) {
      const size_t at = 8 + random() % (header_bytes - 8);
      const char byte = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          mutant[at] = byte;
          break;
        case 1:
          mutant.erase(at, 1 + random() % 5);
          break;
        default:
          mutant.insert(at, 1 + random() % 3, byte);
      }
    }
    CheckIndex(mutant);
  }
}

}  // namespace
}  // namespace armature
