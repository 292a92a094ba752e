#include "common/base/shorten.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(ShortenTest, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(Shorten("", 0), "");
  EXPECT_EQ(Shorten("abc", 3), "abc");
  EXPECT_EQ(Shorten("abcd", 3), "abc...");
  EXPECT_EQ(Shorten("a\xc3\xa4z", 2), "a...");
  EXPECT_EQ(Shorten("a\xc3\xa4z", 3), "a\xc3\xa4...");
  EXPECT_EQ(Shorten("\x80\x80\x80", 2), "...");
}

}  // namespace
}  // namespace monsoon
