#include "common/data/access/quoting.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(QuotingTest, ShowsToTheUserAlone) {
  EXPECT_EQ(Content("a\"b", Quoting::kShow), "\"a\\\"b\"");
  EXPECT_EQ(ContentNumber(0.1, Quoting::kShow), "0.1");
  EXPECT_EQ(Content("secret", Quoting::kDescribe), "a text of 6 letters");
  EXPECT_EQ(Content("7", Quoting::kDescribe), "a text of 1 digit");
  EXPECT_EQ(Content("root:$6$", Quoting::kDescribe), "a text of 8 characters");
  EXPECT_EQ(Content("\xff\x01", Quoting::kDescribe), "a text of 2 bytes");
  EXPECT_EQ(Content("", Quoting::kDescribe), "an empty text");
  EXPECT_EQ(ContentNumber(0.1, Quoting::kDescribe), "a number");
}

}  // namespace
}  // namespace monsoon
