#include "common/data/csv_parser.h"

#include "common/base/status.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

using Rows = std::vector<std::vector<std::string>>;

struct Parsed {
  Rows rows;
  std::vector<uint64_t> lines;
};

// In pieces of `piece` bytes.
absl::StatusOr<Parsed> ParseAll(absl::string_view text, size_t piece, char delimiter = ',') {
  Parsed parsed;
  const auto visit = [&](std::span<const absl::string_view> fields, uint64_t line) {
    parsed.rows.emplace_back(fields.begin(), fields.end());
    parsed.lines.push_back(line);
    return absl::OkStatus();
  };
  CsvParser parser("t.csv", delimiter);
  for (size_t i = 0; i < text.size(); i += piece) {
    RETURN_IF_ERROR(parser.Parse(text.substr(i, piece), visit));
  }
  RETURN_IF_ERROR(parser.Finish(visit));
  return parsed;
}

TEST(CsvParserTest, ReadsWhatRfc4180Allows) {
  constexpr absl::string_view kText =
      "a,b,c\r\n"
      "1,,3\n"
      "\"x, \"\"y\"\"\",\"two\r\nlines\",\"\"\r\n"
      "\n"
      "last,\"q\",";
  for (const size_t piece : {1, 2, 3, 7, 100}) {
    const auto parsed = ParseAll(kText, piece);
    ASSERT_OK(parsed);
    EXPECT_EQ(parsed->rows, (Rows{{"a", "b", "c"},
                                  {"1", "", "3"},
                                  {"x, \"y\"", "two\r\nlines", ""},
                                  {""},
                                  {"last", "q", ""}}));
    EXPECT_THAT(parsed->lines, ElementsAre(1, 2, 3, 5, 6)) << piece;
  }
}

TEST(CsvParserTest, TakesAnotherDelimiter) {
  EXPECT_EQ(ParseAll("a\tb,c\n", 3, '\t')->rows, (Rows{{"a", "b,c"}}));
  EXPECT_EQ(ParseAll("a;\"b;c\"\n", 3, ';')->rows, (Rows{{"a", "b;c"}}));
}

TEST(CsvParserTest, AnEmptyFileHasNoRows) { EXPECT_TRUE(ParseAll("", 1)->rows.empty()); }

TEST(CsvParserTest, NamesTheLineOfWhatIsWrong) {
  struct Case {
    absl::string_view text;
    std::string message;
  };
  const Case cases[] = {
      {"a,b\n1,\"2\n3,4\n", "t.csv:2: the quote that begins a field here is never closed"},
      {"a,b\n1,2\n3,4\"5\n", "t.csv:3: a quote in a field without quotes"},
      {"a\n\"two\nlines\"x\n", "t.csv:3: text after the quote that ends a field"},
      {"a\rb\n", "t.csv:1: a carriage return that no line feed follows"},
      {absl::string_view("a\n\0b\n", 5), "t.csv:2: a byte of 0"},
  };
  for (const Case& c : cases) {
    for (const size_t piece : {1, 100}) {
      EXPECT_THAT(ParseAll(c.text, piece),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
    }
  }
}

TEST(CsvParserTest, TheVisitorsErrorEndsIt) {
  CsvParser parser("t.csv", ',');
  int rows = 0;
  const auto visit = [&](std::span<const absl::string_view>, uint64_t) {
    return ++rows == 2 ? absl::DataLossError("enough") : absl::OkStatus();
  };
  EXPECT_THAT(parser.Parse("1\n2\n3\n", visit), StatusIs(absl::StatusCode::kDataLoss, "enough"));
  EXPECT_EQ(rows, 2);
}

}  // namespace
}  // namespace monsoon
