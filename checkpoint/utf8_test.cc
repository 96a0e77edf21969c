#include "armature/checkpoint/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace armature {
namespace {

TEST(Utf8, AcceptsEveryLengthOfSequence) {
  EXPECT_EQ(FindInvalidUtf8(""), -1);
  EXPECT_EQ(FindInvalidUtf8("weight \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82"), -1);
  EXPECT_EQ(FindInvalidUtf8("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"), -1);
}

TEST(Utf8, NamesTheFirstIllFormedByte) {
  EXPECT_EQ(FindInvalidUtf8("a\xFFz"), 1);
  EXPECT_EQ(FindInvalidUtf8("\x80"), 0);
  EXPECT_EQ(FindInvalidUtf8("ab\xC3"), 2) << "cut in a sequence";
  EXPECT_EQ(FindInvalidUtf8("\xC0\xAF"), 0) << "overlong";
  EXPECT_EQ(FindInvalidUtf8("\xE0\x80\xAF"), 0) << "overlong";
  EXPECT_EQ(FindInvalidUtf8("\xED\xA0\x80"), 0) << "surrogate";
  EXPECT_EQ(FindInvalidUtf8("\xF4\x90\x80\x80"), 0) << "over U+10FFFF";
}

}  // namespace
}  // namespace armature
