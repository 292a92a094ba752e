#include "common/data/class_words.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

ClassWords Of(const std::vector<std::string>& words) {
  ClassWords result;
  for (size_t i = 0; i < words.size(); ++i) {
    result.Add(words[i], [i] { return absl::StrCat("a.csv:", i + 2); });
  }
  return result;
}

TEST(ClassWordsTest, NumbersByNames) {
  const std::vector<std::string> names = {"dog", "cat", "owl"};
  ASSERT_OK_AND_ASSIGN(const ClassWords::Numbered numbered,
                       Of({"owl", "dog", "1", "owl"}).Number(names, {}));
  EXPECT_THAT(numbered.labels, ElementsAre(2, 0, 1, 2));
  EXPECT_EQ(numbered.names, names);
  EXPECT_EQ(numbered.classes, 3u);
  const auto refusal = [&](Quoting quoting) {
    return Of({"owl", "1"}).Number(names, {.take_numbers = false, .quoting = quoting}).status();
  };
  EXPECT_THAT(refusal(Quoting::kShow),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a.csv:3: \"1\" is none of the classes dog, cat, owl")));
  EXPECT_THAT(refusal(Quoting::kDescribe).message(),
              HasSubstr("a.csv:3: a text of 1 digit is none of the classes"));
}

TEST(ClassWordsTest, WholeNumbersStayWhatTheyAre) {
  ASSERT_OK_AND_ASSIGN(const ClassWords::Numbered numbered, Of({"3", "0"}).Number({}, {}));
  EXPECT_THAT(numbered.labels, ElementsAre(3, 0));
  EXPECT_THAT(numbered.names, IsEmpty());
  EXPECT_EQ(numbered.classes, 4u);
}

TEST(ClassWordsTest, NumbersThatAreNoClassNumbersAreOrderedByValue) {
  ASSERT_OK_AND_ASSIGN(const ClassWords::Numbered numbered,
                       Of({"10.0", "2.0", "1.0"}).Number({}, {}));
  EXPECT_THAT(numbered.names, ElementsAre("1.0", "2.0", "10.0"));
  EXPECT_THAT(numbered.labels, ElementsAre(2, 1, 0));
}

TEST(ClassWordsTest, AnOrderThatNobodyTellsIsRefusedWhereThereAreTwo) {
  EXPECT_THAT(Of({"10.0", "2.0"}).Number({}, {.order_is_told = false}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a.csv:2: nothing says in which order the job")));
  const std::vector<std::string> names = {"10.0", "2.0"};
  ASSERT_OK_AND_ASSIGN(const ClassWords::Numbered listed,
                       Of({"2.0", "10.0"}).Number(names, {.order_is_told = false}));
  EXPECT_THAT(listed.labels, ElementsAre(1, 0));
  EXPECT_OK(Of({"owl", "cat"}).Number({}, {.order_is_told = false}).status());
  EXPECT_OK(Of({"10", "2"}).Number({}, {.order_is_told = false}).status()) << "they are numbers";
}

// A search of all names for each word would outlast the test.
TEST(ClassWordsTest, TakesAsManyClassesAsSamples) {
  constexpr uint32_t kClasses = 500'000;
  std::vector<std::string> words;
  for (uint32_t i = kClasses; i > 0; --i) {
    words.push_back(absl::StrCat("user_", 1'000'000 + i));
  }
  ASSERT_OK_AND_ASSIGN(const ClassWords::Numbered first, Of(words).Number({}, {}));
  ASSERT_OK_AND_ASSIGN(const ClassWords::Numbered again, Of(words).Number(first.names, {}));
  EXPECT_EQ(again.labels, first.labels);
  EXPECT_EQ(again.labels.front(), kClasses - 1);
  EXPECT_EQ(again.labels.back(), 0u);
}

}  // namespace
}  // namespace monsoon
