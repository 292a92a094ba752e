#include "common/config/suggest.h"

#include "common/config/utf8.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(EditDistance, CountsSlips) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("adress", "address"), 1);
  EXPECT_EQ(EditDistance("ADDRESS", "address"), 0);
  EXPECT_EQ(EditDistance("lables", "labels"), 1);  // a swap of neighbours
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(NearestName, FindsSlipsPartsAndNothingElse) {
  EXPECT_EQ(NearestName("epoch", {"steps", "epochs"}), "epochs");
  EXPECT_EQ(NearestName("batch", {"seed", "batch_size"}), "batch_size");
  EXPECT_EQ(NearestName("learning_rate", {"epsilon", "rate"}), "rate");
  EXPECT_EQ(NearestName("GPU", {"AUTO", "CPU", "CUDA"}), "");
  EXPECT_EQ(NearestName("pss", {"ps"}), "ps");
  EXPECT_EQ(NearestName("colour", {"ps", "worker"}), "");
  EXPECT_EQ(NearestName("", {"ps"}), "");
  EXPECT_EQ(NearestName(std::string(1 << 20, 'a'), {"ps"}), "");
}

TEST(FindInvalidUtf8, FollowsRfc3629) {
  EXPECT_EQ(FindInvalidUtf8("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), std::string::npos);
  EXPECT_EQ(FindInvalidUtf8("a\xff"), 1u);
  EXPECT_EQ(FindInvalidUtf8("\xc0\xaf"), 0u);          // overlong
  EXPECT_EQ(FindInvalidUtf8("\xe0\x80\xaf"), 0u);      // overlong
  EXPECT_EQ(FindInvalidUtf8("\xed\xa0\x80"), 0u);      // surrogate
  EXPECT_EQ(FindInvalidUtf8("\xf4\x90\x80\x80"), 0u);  // over U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("ab\xe2\x82"), 2u);        // cut off
}

TEST(DidYouMeanFlag, ShowsTheDashes) {
  EXPECT_EQ(DidYouMeanFlag("thread", {"task", "threads"}), "did you mean \"--threads\"?");
  EXPECT_EQ(DidYouMeanFlag("zebra", {"task", "threads"}), "");
}

}  // namespace
}  // namespace monsoon
