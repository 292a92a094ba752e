#include "common/data/class_order.h"

#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(ClassOrderTest, KnowsWhereEarlierBuildsHadAnother) {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"owl", "cat", "Zebra"}, {"0", "2", "1"}, {"10", "20", "b"}, {}}) {
    EXPECT_OK(CheckSameOrderBefore(names));
  }
  EXPECT_THAT(CheckSameOrderBefore(std::vector<std::string>{"10", "2", "1"}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("by value [\"1\", \"2\", \"10\"], or as words [\"1\", "
                                          "\"10\", \"2\"]; list them")));
  EXPECT_THAT(CheckSameOrderBefore(std::vector<std::string>{"+", "2"}), Not(testing::IsOk()))
      << "a word whose byte is below a digit's";
}

TEST(ClassOrderTest, FindsTheOddOne) {
  EXPECT_EQ(OddClassName(std::vector<std::string>{"1", "2", "?"}), "?");
  EXPECT_EQ(OddClassName(std::vector<std::string>{"1", "2", "3"}), "");
  EXPECT_EQ(OddClassName(std::vector<std::string>{"cat", "dog"}), "");
  EXPECT_EQ(OddClassName(std::vector<std::string>{"cat", "dog", "3"}), "");
}

}  // namespace
}  // namespace monsoon
