#include "common/base/peer_text.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(PeerTextTest, WhatPeopleCanReadStays) {
  for (const char* const text :
       {"", "worker/7: no GPU", "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80",
        "C:\\n is a path", "\"quoted\" 'text'"}) {
    EXPECT_EQ(PeerText(text, 100), text);
  }
}

TEST(PeerTextTest, WhatATerminalObeysIsEscaped) {
  EXPECT_EQ(PeerText("a\x1b[2Jb", 100), "a\\x1b[2Jb");
  EXPECT_EQ(PeerText("a\nI0101 forged\r\tx", 100), "a\\nI0101 forged\\r\\tx");
  EXPECT_EQ(PeerText(std::string("a\0b\x7f\x08", 5), 100), "a\\x00b\\x7f\\x08");
  // C1, as CSI in one character.
  EXPECT_EQ(PeerText("\xc2\x9b"
                     "31m",
                     100),
            "\\u009b31m");
  // Right to left, line separator, zero width, byte order mark, a tag.
  EXPECT_EQ(PeerText("\xe2\x80\xae\xe2\x80\xa8\xe2\x80\x8b\xef\xbb\xbf\xf3\xa0\x80\x81", 100),
            "\\u202e\\u2028\\u200b\\ufeff\\U000e0001");
}

TEST(PeerTextTest, WhatIsNoUtf8IsEscaped) {
  EXPECT_EQ(PeerText("caf\xe9 au lait", 100), "caf\\xe9 au lait");
  EXPECT_EQ(PeerText("\xe2\x80", 100), "\\xe2\\x80");  // cut short
  EXPECT_EQ(PeerText("\xc0\x8a\xed\xa0\x80", 100),
            "\\xc0\\x8a\\xed\\xa0\\x80");  // overlong, surrogate
  EXPECT_EQ(PeerText("\x9b\xff", 100), "\\x9b\\xff");
}

TEST(PeerTextTest, TheLengthIsBounded) {
  EXPECT_EQ(PeerText("abcdef", 6), "abcdef");
  EXPECT_EQ(PeerText("abcdefg", 6), "abcdef...");
  // No half of a character and no half of an escape.
  EXPECT_EQ(PeerText("abc\xc3\xa9", 4), "abc...");
  EXPECT_EQ(PeerText("abc\x1b", 6), "abc...");
  EXPECT_EQ(PeerText(std::string(1 << 20, '\n'), 10), "\\n\\n\\n\\n\\n...");
}

TEST(PeerTextTest, TwiceIsAsOnce) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
  }
  const std::string once = PeerText(all, 10'000);
  EXPECT_EQ(PeerText(once, 10'000), once);
  for (const char c : once) {
    EXPECT_GE(static_cast<unsigned char>(c), 0x20);
    EXPECT_LT(static_cast<unsigned char>(c), 0x7f);
  }
}

TEST(PeerTextTest, LinesStayWhereTheyMay) {
  EXPECT_EQ(PeerLines("one\ntwo\x1b\r\n", 100), "one\ntwo\\x1b\\r\n");
}

}  // namespace
}  // namespace monsoon
