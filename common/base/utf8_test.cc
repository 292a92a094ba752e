#include "common/base/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(FindInvalidUtf8, FollowsRfc3629) {
  EXPECT_EQ(FindInvalidUtf8("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), std::string::npos);
  EXPECT_EQ(FindInvalidUtf8("a\xff"), 1u);
  EXPECT_EQ(FindInvalidUtf8("\xc0\xaf"), 0u);          // overlong
  EXPECT_EQ(FindInvalidUtf8("\xe0\x80\xaf"), 0u);      // overlong
  EXPECT_EQ(FindInvalidUtf8("\xed\xa0\x80"), 0u);      // surrogate
  EXPECT_EQ(FindInvalidUtf8("\xf4\x90\x80\x80"), 0u);  // over U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("ab\xe2\x82"), 2u);        // cut off
}

TEST(ValidUtf8, WritesOutWhatIsNone) {
  EXPECT_EQ(ValidUtf8("plain \xc3\xa9"), "plain \xc3\xa9");
  EXPECT_EQ(ValidUtf8("caf\xe9.png: \xe2\x82"), "caf\\xe9.png: \\xe2\\x82");
  EXPECT_EQ(ValidUtf8("\x07\xff"), "\x07\\xff");
  EXPECT_EQ(ValidUtf8(""), "");
}

}  // namespace
}  // namespace monsoon
