#include "common/data/class_order.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Sorted(std::vector<std::string> names) {
  SortClassNames(&names);
  return names;
}

TEST(ClassOrderTest, NumbersAreOrderedAsNumbers) {
  EXPECT_THAT(Sorted({"0", "1", "10", "11", "2", "9"}),
              ElementsAre("0", "1", "2", "9", "10", "11"));
  EXPECT_THAT(Sorted({"10.0", "9.0", "-1", "2.5"}), ElementsAre("-1", "2.5", "9.0", "10.0"));
  // These are one number in float32.
  EXPECT_THAT(Sorted({"99999999", "100000000", "16777217", "16777216"}),
              ElementsAre("16777216", "16777217", "99999999", "100000000"));
  // Two ways to write one number are two classes still.
  EXPECT_THAT(Sorted({"1.0", "01", "1"}), ElementsAre("01", "1", "1.0"));
}

TEST(ClassOrderTest, WordsByTheirBytesBehindNumbers) {
  EXPECT_THAT(Sorted({"owl", "cat", "Zebra"}), ElementsAre("Zebra", "cat", "owl"));
  EXPECT_THAT(Sorted({"?", "10", "2", "a1"}), ElementsAre("2", "10", "?", "a1"));
  EXPECT_THAT(ClassOrder(std::vector<std::string>{"10", "b", "2"}), ElementsAre(2, 0, 1));
}

TEST(ClassOrderTest, FindsTheOddOne) {
  EXPECT_EQ(OddClassName(std::vector<std::string>{"1", "2", "?"}), "?");
  EXPECT_EQ(OddClassName(std::vector<std::string>{"1", "2", "3"}), "");
  EXPECT_EQ(OddClassName(std::vector<std::string>{"cat", "dog"}), "");
  EXPECT_EQ(OddClassName(std::vector<std::string>{"cat", "dog", "3"}), "");
}

}  // namespace
}  // namespace monsoon
