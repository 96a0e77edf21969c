// Broken token files, every one there is near a small good one: reading is an error or gives the exact data.
#include <vector>

#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/data/token_file.h"
#include "armature/data/token_file_writer.h"

namespace armature {
namespace {

constexpr int32_t kTokens[] = {5, 0, 299, 17, 256};
constexpr size_t kNumTokens = 5;

std::string GoodFile(int bits) {
  MemoryFileSystem files;
  const auto writer = TokenFileWriter::Create(files, "good", {300, bits});
  EXPECT_THAT((*writer)->Append(kTokens), IsOk());
  EXPECT_THAT((*writer)->Finish(), IsOk());
  return *files.Read("good");
}

enum class Outcome { kRefused, kFoundByVerify, kExact };

Outcome Try(absl::string_view bytes) {
  MemoryFileSystem files;
  EXPECT_THAT((*files.Create("bad"))->Append(bytes), IsOk());
  const absl::StatusOr<TokenFile> file = TokenFile::Open(files, "bad");
  if (!file.ok()) {
    EXPECT_THAT(file.status().message(), ::testing::HasSubstr("bad"));
    return Outcome::kRefused;
  }
  // Whatever Open let through must be safe to read, and whatever Verify let through must be right.
  std::vector<int32_t> read(file->num_tokens());
  const absl::Status status = file->Read(0, absl::MakeSpan(read));
  if (!file->Verify().ok()) return Outcome::kFoundByVerify;
  EXPECT_THAT(status, IsOk());
  EXPECT_THAT(read, ::testing::ElementsAreArray(kTokens));
  return Outcome::kExact;
}

TEST(TokenFileCorruption, EveryTruncationIsRefused) {
  for (int bits : {16, 32}) {
    const std::string good = GoodFile(bits);
    ASSERT_EQ(Try(good), Outcome::kExact);
    for (size_t size = 0; size < good.size(); ++size)
      EXPECT_EQ(Try(good.substr(0, size)), Outcome::kRefused) << size;
  }
}

TEST(TokenFileCorruption, EveryFlippedBitIsFound) {
  for (int bits : {16, 32}) {
    const std::string good = GoodFile(bits);
    const size_t payload_end = kTokenFileHeaderBytes + kNumTokens * bits / 8;
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      const bool in_payload = bit / 8 >= kTokenFileHeaderBytes && bit / 8 < payload_end;
      EXPECT_EQ(Try(bad), in_payload ? Outcome::kFoundByVerify : Outcome::kRefused) << bit;
    }
  }
}

TEST(TokenFileCorruption, EveryRemovedInsertedOrChangedByteIsFound) {
  const std::string good = GoodFile(16);
  for (size_t i = 0; i <= good.size(); ++i) {
    for (char byte : {'\0', '\1', '\x7F', '\xFF'}) {
      std::string inserted = good;
      inserted.insert(i, 1, byte);
      EXPECT_NE(Try(inserted), Outcome::kExact) << i;
      if (i == good.size()) continue;
      std::string changed = good;
      changed[i] = byte;
      if (changed != good) {
        EXPECT_NE(Try(changed), Outcome::kExact) << i;
      }
    }
    if (i < good.size()) {
      EXPECT_NE(Try(std::string(good).erase(i, 1)), Outcome::kExact) << i;
    }
  }
}

}  // namespace
}  // namespace armature
