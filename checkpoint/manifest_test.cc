#include "armature/checkpoint/manifest.h"

#include <functional>
#include <string>

#include "armature/base/crc32c.h"
#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

Shard MakeShard(const std::string& file, int64_t first_row) {
  Shard shard;
  shard.mutable_file()->set_name(file);
  shard.mutable_file()->set_size_bytes(80);
  shard.mutable_file()->set_header_bytes(64);
  SavedTensor& tensor = *shard.add_tensors();
  tensor.set_name("w");
  tensor.set_dtype("f32");
  tensor.add_shape(2);
  tensor.add_shape(4);
  SavedSlice& slice = *tensor.add_slices();
  slice.set_offset_bytes(64);
  slice.add_offset(first_row);
  slice.add_offset(0);
  slice.add_shape(1);
  slice.add_shape(4);
  return shard;
}

Manifest MakeManifest() {
  Manifest manifest;
  manifest.set_format(kManifestFormat);
  manifest.set_step(3);
  EXPECT_THAT(AddShards({MakeShard("a", 0), MakeShard("b", 1)}, manifest), IsOk());
  return manifest;
}

TEST(Manifest, IsTheSumOfTheShards) {
  const Manifest manifest = MakeManifest();
  ASSERT_EQ(manifest.tensors_size(), 1);
  ASSERT_EQ(manifest.tensors(0).slices_size(), 2);
  EXPECT_EQ(manifest.tensors(0).slices(1).file(), 1);
  EXPECT_EQ(SliceOf(manifest.tensors(0).slices(1)), (Slice{{1, 0}, {1, 4}}));
}

TEST(Manifest, RanksMustAgreeAndTileTheTensor) {
  Manifest manifest;
  Shard other = MakeShard("b", 1);
  other.mutable_tensors(0)->set_dtype("i32");
  EXPECT_THAT(AddShards({MakeShard("a", 0), other}, manifest),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("f32[2, 4] in one slice and i32[2, 4] in another")));
  manifest.Clear();
  EXPECT_THAT(AddShards({MakeShard("a", 0)}, manifest),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no slice has 4")));
  manifest.Clear();
  EXPECT_THAT(AddShards({MakeShard("a", 0), MakeShard("b", 0)}, manifest),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("overlap")));
}

TEST(Manifest, SurvivesEncoding) {
  const Manifest manifest = MakeManifest();
  ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeManifest(manifest));
  ASSERT_OK_AND_ASSIGN(const Manifest decoded, DecodeManifest(bytes));
  EXPECT_EQ(decoded.SerializeAsString(), manifest.SerializeAsString());
}

TEST(Manifest, EveryCutIsDataLoss) {
  ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeManifest(MakeManifest()));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeManifest(bytes.substr(0, size)), StatusIs(absl::StatusCode::kDataLoss)) << size;
  }
  EXPECT_THAT(DecodeManifest("\x0A"), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(Manifest, NewerFormatIsNotRead) {
  Manifest manifest = MakeManifest();
  manifest.set_format(kManifestFormat + 1);
  ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeManifest(manifest));
  EXPECT_THAT(DecodeManifest(bytes), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("format 2")));
}

// A manifest with the right checksum can still be hostile.
TEST(Manifest, CannotLeadOutOfItsDirectoryOrItsFiles) {
  struct Attack {
    std::function<void(Manifest&)> change;
    std::string error;
  };
  const auto file = [](Manifest& m) { return m.mutable_files(0); };
  const auto slice = [](Manifest& m) { return m.mutable_tensors(0)->mutable_slices(0); };
  const std::vector<Attack> attacks = {
      {[&](Manifest& m) { file(m)->set_name("../a"); }, "\"../a\" is not a plain name"},
      {[&](Manifest& m) { file(m)->set_name("/etc/passwd"); }, "is not a plain name"},
      {[&](Manifest& m) { file(m)->set_name(".."); }, "is not a plain name"},
      {[&](Manifest& m) { file(m)->set_name("a\\b"); }, "is not a plain name"},
      {[&](Manifest& m) { file(m)->set_name(std::string("a\0b", 3)); }, "is not a plain name"},
      {[&](Manifest& m) { file(m)->set_name(""); }, "is not a plain name"},
      {[&](Manifest& m) { file(m)->set_name("b"); }, "listed twice"},
      {[&](Manifest& m) { file(m)->set_header_bytes(-1); }, "bytes of header"},
      {[&](Manifest& m) { slice(m)->set_file(2); }, "slice in file 2 of 2"},
      {[&](Manifest& m) { slice(m)->set_file(-1); }, "slice in file -1 of 2"},
      {[&](Manifest& m) { slice(m)->set_offset_bytes(65); }, "not in the data of file a"},
      {[&](Manifest& m) { slice(m)->set_offset_bytes(0); }, "not in the data of file a"},
      {[&](Manifest& m) { slice(m)->set_offset_bytes(INT64_MAX); }, "not in the data of file a"},
      {[&](Manifest& m) { slice(m)->set_shape(1, 5); }, "does not fit into shape [2, 4]"},
      {[&](Manifest& m) { slice(m)->set_shape(1, -4); }, "negative extent"},
      {[&](Manifest& m) { slice(m)->set_offset(0, INT64_MAX); }, "does not fit into shape"},
      {[&](Manifest& m) { slice(m)->add_offset(0); }, "does not fit into shape"},
      {[&](Manifest& m) { m.mutable_tensors(0)->set_dtype("f31"); }, "unknown dtype"},
      {[&](Manifest& m) { m.mutable_tensors(0)->set_shape(0, int64_t{1} << 62); }, "2^63-1 elements"},
      {[&](Manifest& m) { *m.add_tensors() = m.tensors(0); }, "tensor w is listed twice"},
  };
  for (const Attack& attack : attacks) {
    Manifest manifest = MakeManifest();
    attack.change(manifest);
    ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeManifest(manifest));
    EXPECT_THAT(DecodeManifest(bytes), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(attack.error)));
  }
}

}  // namespace
}  // namespace armature
