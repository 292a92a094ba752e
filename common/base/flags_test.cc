#include "common/base/flags.h"

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Values {
  std::string cluster = "default";
  bool insecure = false;
  uint32_t task = 7;
  uint64_t big = 0;
  double ratio = 0.5;
};

absl::StatusOr<std::vector<std::string>> Parse(std::vector<const char*> args, Values* values,
                                               bool* help = nullptr) {
  FlagSet flags("tool FILE");
  flags.Add("cluster", &values->cluster, "the cluster file");
  flags.Add("insecure", &values->insecure, "no TLS");
  flags.Add("task", &values->task, "which");
  flags.Add("big", &values->big, "big");
  flags.Add("ratio", &values->ratio, "ratio");
  auto result = flags.Parse(args);
  if (help != nullptr) {
    *help = flags.help_wanted();
  }
  return result;
}

TEST(FlagSetTest, TakesEveryForm) {
  Values values;
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> rest,
                       Parse({"--cluster=a=b", "x", "--task", "3", "--insecure",
                              "--big=18446744073709551615", "--ratio=1e-3", "--", "--task=9"},
                             &values));
  EXPECT_EQ(values.cluster, "a=b");
  EXPECT_EQ(values.task, 3u);
  EXPECT_TRUE(values.insecure);
  EXPECT_EQ(values.big, UINT64_MAX);
  EXPECT_EQ(values.ratio, 1e-3);
  EXPECT_THAT(rest, ElementsAre("x", "--task=9"));
}

TEST(FlagSetTest, KeepsDefaultsAndNegates) {
  Values values;
  values.insecure = true;
  ASSERT_OK(Parse({"--no-insecure"}, &values));
  EXPECT_FALSE(values.insecure);
  EXPECT_EQ(values.cluster, "default");
}

TEST(FlagSetTest, RefusesBadFlags) {
  Values values;
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(Parse({"--clutser=x"}, &values), StatusIs(invalid, HasSubstr("--cluster")));
  EXPECT_THAT(Parse({"--task=-1"}, &values), StatusIs(invalid, HasSubstr("--task=-1")));
  EXPECT_THAT(Parse({"--task=1x"}, &values), StatusIs(invalid, HasSubstr("whole number")));
  EXPECT_THAT(Parse({"--task"}, &values), StatusIs(invalid, HasSubstr("needs a value")));
  EXPECT_THAT(Parse({"--no-task"}, &values), StatusIs(invalid, HasSubstr("unknown flag")));
  EXPECT_THAT(Parse({"--insecure=maybe"}, &values), StatusIs(invalid, HasSubstr("true or false")));
}

TEST(FlagSetTest, HelpIsNoError) {
  Values values;
  bool help = false;
  ASSERT_OK(Parse({"--help", "--nonsense"}, &values, &help));
  EXPECT_TRUE(help);
}

TEST(FlagSetTest, CollectsRepeatedFlags) {
  std::vector<std::string> values;
  FlagSet flags("test");
  flags.Add("set", &values, "");
  const char* const args[] = {"--set=a=1", "x", "--set", "b=2"};
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> positional, flags.Parse(args));
  EXPECT_THAT(values, ::testing::ElementsAre("a=1", "b=2"));
  EXPECT_THAT(positional, ::testing::ElementsAre("x"));
}

TEST(FlagSetTest, AsksForASuggestion) {
  bool json = false;
  FlagSet flags("test");
  flags.Add("json", &json, "");
  flags.SetSuggest([](const std::string& name, const std::vector<std::string>& known) {
    return name == "jsn" ? "did you mean " + known.back() + "?" : "";
  });
  const char* const near[] = {"--jsn"};
  EXPECT_EQ(flags.Parse(near).status().message(), "unknown flag --jsn; did you mean json?");
  const char* const far[] = {"--far"};
  EXPECT_THAT(flags.Parse(far).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there are --json")));
}

}  // namespace
}  // namespace monsoon
