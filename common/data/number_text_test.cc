#include "common/data/number_text.h"

#include <cfloat>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(NumberTextTest, ReadsDecimalNumbers) {
  EXPECT_EQ(*ParseFloat("1.5", Quoting::kShow), 1.5f);
  EXPECT_EQ(*ParseFloat(" -2e3\t", Quoting::kShow), -2000.0f);
  EXPECT_EQ(*ParseFloat("1e-320", Quoting::kShow), 0.0f);
  EXPECT_EQ(*ParseFloat("3.4028234663852886e38", Quoting::kShow), FLT_MAX);
  // By way of double: its float is 1, the nearest float of the text is 1 + 2^-23.
  EXPECT_EQ(*ParseFloat("1.00000005960464477540", Quoting::kShow), 1.0f);
}

TEST(NumberTextTest, RefusesWhatIsNone) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  for (const char* const text : {"", " ", "x", "1 2", "1,5", "0x10", "1e", "--1", "1.5kg"}) {
    EXPECT_THAT(ParseFloat(text, Quoting::kShow), StatusIs(kInvalid, HasSubstr("is not a number")))
        << text;
  }
  for (const char* const text : {"nan", "inf", "-Infinity"}) {
    EXPECT_THAT(ParseFloat(text, Quoting::kShow),
                StatusIs(kInvalid, HasSubstr("is not a finite number")))
        << text;
  }
  for (const char* const text : {"1e400", "-1e39", "3.4028236e38"}) {
    EXPECT_THAT(ParseFloat(text, Quoting::kShow),
                StatusIs(kInvalid, HasSubstr("beyond what float32")))
        << text;
  }
}

TEST(NumberTextTest, WholeNumbersAreDigitsAlone) {
  uint32_t number = 0;
  EXPECT_TRUE(ParseWholeNumber("4294967295", &number));
  EXPECT_EQ(number, 4294967295u);
  for (const char* const text : {"", "-1", "+1", " 1", "1.0", "4294967296", "1e2"}) {
    EXPECT_FALSE(ParseWholeNumber(text, &number)) << text;
  }
}

TEST(NumberTextTest, QuotesShortAndEscaped) {
  EXPECT_EQ(Quoted("a\"\n"), "\"a\\\"\\n\"");
  EXPECT_EQ(Quoted(std::string(50, 'x')), "\"" + std::string(40, 'x') + "...\"");
}

}  // namespace
}  // namespace monsoon
