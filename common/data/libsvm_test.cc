#include <filesystem>
#include <fstream>

#include "common/base/status.h"
#include "common/data/libsvm_parser.h"
#include "common/data/libsvm_table.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Samples as text, "3: +1 0=0.5 4=2", of a file in pieces of `piece` bytes.
absl::StatusOr<std::vector<std::string>> ParseAll(absl::string_view text, size_t piece) {
  std::vector<std::string> samples;
  const auto visit = [&](absl::string_view label, std::span<const LibsvmValue> values,
                         uint64_t line) {
    std::ostringstream sample;
    sample << line << ": " << label;
    for (const LibsvmValue& value : values) {
      sample << " " << value.index << "=" << value.value;
    }
    samples.push_back(sample.str());
    return absl::OkStatus();
  };
  LibsvmParser parser("t.svm", 5, Quoting::kShow);
  for (size_t i = 0; i < text.size(); i += piece) {
    RETURN_IF_ERROR(parser.Parse(text.substr(i, piece), visit));
  }
  RETURN_IF_ERROR(parser.Finish(visit));
  return samples;
}

TEST(LibsvmParserTest, ReadsLines) {
  constexpr absl::string_view kText =
      "# made by hand\n"
      "+1 1:0.5 5:2 # the first\r\n"
      "\n"
      "-1\n"
      "2.5\t2:-1e3";
  for (const size_t piece : {1, 2, 3, 100}) {
    const auto samples = ParseAll(kText, piece);
    ASSERT_OK(samples);
    EXPECT_THAT(*samples, ElementsAre("2: +1 0=0.5 4=2", "4: -1", "5: 2.5 1=-1000")) << piece;
  }
}

TEST(LibsvmParserTest, NamesTheLineOfWhatIsWrong) {
  const std::pair<absl::string_view, std::string> cases[] = {
      {"1 1:1\n1 2:1 2:3\n", "t.svm:2: index 2 follows index 2: they do not ascend"},
      {"1 3:1 2:3\n", "t.svm:1: index 2 follows index 3"},
      {"1 0:1\n", "t.svm:1: index 0: indices count from 1"},
      {"1 5:1\n1 6:1\n", "t.svm:2: index 6 is above the 5 features"},
      {"1 qid:3 1:1\n", "t.svm:1: qid"},
      {"1 1\n", "t.svm:1: \"1\" is no INDEX:VALUE"},
      {"1 a:1\n", "t.svm:1: \"a:1\" is no INDEX:VALUE"},
      {"1 2:x\n", "t.svm:1: index 2: \"x\" is not a number"},
      {"1 2:nan\n", "t.svm:1: index 2: \"nan\" is not a finite number"},
      {"1:1 2:1\n", "t.svm:1: the line begins with \"1:1\", not with a label"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ParseAll(text, 2), StatusIs(kInvalid, HasSubstr(message)));
  }
}

class LibsvmTableTest : public ::testing::Test {
 protected:
  absl::StatusOr<SampleTable> Read(const std::string& text) {
    const std::string path = std::filesystem::path(::testing::TempDir()) / "t.svm";
    std::ofstream(path) << text;
    source_.set_features(3);
    return ReadLibsvmTable(source_, {path}, options_);
  }

  LibsvmSource source_;
  TableOptions options_;
};

TEST_F(LibsvmTableTest, SparseLinesBecomeRows) {
  ASSERT_OK_AND_ASSIGN(const SampleTable table, Read("2 3:5\n0\n1 1:1 2:-2\n"));
  EXPECT_THAT(table.values, ElementsAre(0, 0, 5, 0, 0, 0, 1, -2, 0));
  EXPECT_THAT(table.labels, ElementsAre(2, 0, 1));
  EXPECT_EQ(table.classes, 3u);
  options_.limit = 1;
  EXPECT_THAT(Read("2 3:5\n0\n")->values, ElementsAre(0, 0, 5));
}

TEST_F(LibsvmTableTest, MinusAndPlusOneAreTwoClasses) {
  EXPECT_THAT(Read("-1 1:1\n+1 1:2\n1 1:3\n")->labels, ElementsAre(0, 1, 1));
  EXPECT_THAT(Read("-1\n1\n2\n"),
              StatusIs(kInvalid, AllOf(HasSubstr("t.svm:3: label \"2\" beside that of "),
                                       HasSubstr("t.svm:1: classes are -1 and 1"))));
  EXPECT_THAT(Read("0\n1\n-1\n"), StatusIs(kInvalid, HasSubstr("t.svm:3: label \"-1\" beside")));
}

TEST_F(LibsvmTableTest, LabelsAreTargetsOfARegression) {
  source_.set_regression(true);
  ASSERT_OK_AND_ASSIGN(const SampleTable table, Read("2.5 3:5\n-7\n"));
  EXPECT_THAT(table.targets, ElementsAre(2.5f, -7.0f));
  EXPECT_EQ(table.targets_per_example, 1u);
  EXPECT_THAT(table.labels, IsEmpty());
}

TEST_F(LibsvmTableTest, RefusesLabelsThatAreNoClass) {
  EXPECT_THAT(Read("1\n2.5\n"),
              StatusIs(kInvalid, HasSubstr("t.svm:2: label \"2.5\" is no class")));
  EXPECT_THAT(Read("-2\n"), StatusIs(kInvalid, HasSubstr("label \"-2\" is no class")));
  EXPECT_THAT(Read("1,2 1:1\n"), StatusIs(kInvalid, HasSubstr("(one label a sample)")));
  EXPECT_THAT(Read("# nothing\n"), StatusIs(kInvalid, HasSubstr("there are no samples")));
}

}  // namespace
}  // namespace monsoon
