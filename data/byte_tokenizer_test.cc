#include "armature/data/byte_tokenizer.h"

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ByteTokenizer, TokensAreTheBytes) {
  EXPECT_THAT(ByteTokenizer().Encode("aé\n"), IsOkAndHolds(ElementsAre(97, 0xC3, 0xA9, 10)));
  EXPECT_THAT(ByteTokenizer().Encode(""), IsOkAndHolds(ElementsAre()));
}

TEST(ByteTokenizer, EveryByteComesBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> tokens, ByteTokenizer().Encode(all));
  EXPECT_THAT(ByteTokenizer().Decode(tokens), IsOkAndHolds(all));
}

TEST(ByteTokenizer, WhatIsNoByteIsRefused) {
  for (int32_t token : {-1, 256}) {
    EXPECT_THAT(ByteTokenizer().Decode({token}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no byte")));
  }
}

}  // namespace
}  // namespace armature
