#include "armature/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/checkpoint/safetensors_reader.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

class StringFile : public WritableFile {
 public:
  absl::Status Append(absl::string_view bytes) override {
    contents.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status Close() override { return absl::OkStatus(); }

  std::string contents;
};

const std::vector<SafetensorsDeclaration>& Declarations() {
  static const auto& declarations = *new std::vector<SafetensorsDeclaration>{
      {"flag", DType::kBool, Shape{3}},          {"bias", DType::kF32, Shape{2}},
      {"half", DType::kBF16, Shape{}},           {"none", DType::kI64, Shape{0}},
      {"a \"quoted\" é", DType::kF64, Shape{1}},
  };
  return declarations;
}

std::string Write(std::vector<SafetensorsDeclaration> tensors, const SafetensorsMetadata& metadata = {}) {
  StringFile file;
  absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(std::move(tensors), metadata);
  EXPECT_THAT(writer, IsOk());
  if (!writer.ok()) return "";
  EXPECT_THAT(writer->WriteHeader(file), IsOk());
  char fill = 'a';
  for (const SafetensorsEntry& tensor : writer->tensors()) {
    EXPECT_THAT(writer->Append(file, std::string(tensor.size_bytes, fill++)), IsOk());
  }
  EXPECT_THAT(writer->Finish(), IsOk());
  EXPECT_EQ(static_cast<int64_t>(file.contents.size()), writer->size_bytes());
  return file.contents;
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const std::string file = Write(Declarations(), {{"format", "pt"}});
  ASSERT_OK_AND_ASSIGN(const SafetensorsIndex index, ReadSafetensorsIndex(file));
  ASSERT_EQ(index.tensors.size(), Declarations().size());
  EXPECT_EQ(index.metadata.at("format"), "pt");
  for (const SafetensorsDeclaration& declared : Declarations()) {
    const auto found =
        std::find_if(index.tensors.begin(), index.tensors.end(),
                     [&](const SafetensorsEntry& entry) { return entry.name == declared.name; });
    ASSERT_NE(found, index.tensors.end()) << declared.name;
    EXPECT_EQ(found->shape, declared.shape);
    EXPECT_EQ(found->dtype, declared.dtype);
  }
}

TEST(SafetensorsWriter, AlignsTheDataTo8BytesAndEachTensorToItsElements) {
  for (const char* value : {"", "1", "12", "123", "1234567"}) {
    const std::string file = Write(Declarations(), {{"pad", value}});
    ASSERT_OK_AND_ASSIGN(const SafetensorsIndex index, ReadSafetensorsIndex(file));
    EXPECT_EQ(index.tensors[0].offset_bytes % 8, 0);
    for (const SafetensorsEntry& tensor : index.tensors)
      EXPECT_EQ(tensor.offset_bytes % SizeOf(tensor.dtype), 0) << tensor.name;
  }
}

TEST(SafetensorsWriter, BytesDoNotDependOnTheOrderOfDeclaration) {
  const std::string file = Write(Declarations());
  std::vector<SafetensorsDeclaration> shuffled = Declarations();
  std::reverse(shuffled.begin(), shuffled.end());
  EXPECT_EQ(Write(shuffled), file);
}

TEST(SafetensorsWriter, RefusesNamesThatAFileCannotHold) {
  EXPECT_THAT(SafetensorsWriter::Create({{"w", DType::kF32, {}}, {"w", DType::kF16, {}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"w\" is declared twice")));
  EXPECT_THAT(SafetensorsWriter::Create({{"__metadata__", DType::kF32, {}}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(SafetensorsWriter::Create({{"\xFF", DType::kF32, {}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not UTF-8")));
  EXPECT_THAT(SafetensorsWriter::Create({}, {{"k", "\xFF"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not UTF-8")));
}

TEST(SafetensorsWriter, RefusesSizesThatOverflow) {
  const int64_t big = int64_t{1} << 62;
  EXPECT_THAT(SafetensorsWriter::Create({{"w", DType::kF32, Shape{big}}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(SafetensorsWriter::Create({{"v", DType::kU8, Shape{big}}, {"w", DType::kU8, Shape{big}}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SafetensorsWriter, CountsTheBytes) {
  StringFile file;
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create({{"w", DType::kF32, Shape{2}}}));
  ASSERT_THAT(writer.WriteHeader(file), IsOk());
  EXPECT_THAT(writer.Append(file, "12345"), IsOk());
  EXPECT_THAT(writer.Finish(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(writer.Append(file, "6789"), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(writer.Append(file, "678"), IsOk());
  EXPECT_THAT(writer.Finish(), IsOk());
}

}  // namespace
}  // namespace armature
