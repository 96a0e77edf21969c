#include "armature/base/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace armature {
namespace {

TEST(Crc32c, MatchesPublishedValues) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

TEST(Crc32c, ExtendsAtEveryCut) {
  const std::string text = "123456789";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(text.substr(0, cut)), text.substr(cut)), 0xE3069283u) << cut;
  }
}

}  // namespace
}  // namespace armature
