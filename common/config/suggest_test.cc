#include "common/config/suggest.h"

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

TEST(DidYouMeanFlag, ShowsTheDashes) {
  EXPECT_EQ(DidYouMeanFlag("thread", {"task", "threads"}), "did you mean \"--threads\"?");
  EXPECT_EQ(DidYouMeanFlag("zebra", {"task", "threads"}), "");
}

}  // namespace
}  // namespace monsoon
