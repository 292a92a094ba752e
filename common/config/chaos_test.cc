#include "common/config/chaos.h"

#include "common/config/config_test_util.h"
#include "common/config/task_pattern.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

TEST(LoadChaosPlan, FillsInDefaults) {
  const std::string text = testing::ValidChaosPlan();
  ASSERT_OK_AND_ASSIGN(const ChaosPlan plan, LoadChaosPlan("p", nullptr, &text));
  EXPECT_EQ(plan.seed(), 7u);
  EXPECT_EQ(plan.back_within_s(), 60);
  EXPECT_EQ(plan.checkpoint_within_s(), 300);
  ASSERT_EQ(plan.fault_size(), 3);
  EXPECT_THAT(plan.fault(0).task(), ElementsAre("ps/0", "worker/*"));
  EXPECT_EQ(plan.fault(0).times(), 3u);
  EXPECT_EQ(plan.fault(0).pause_s().max(), 4);
  EXPECT_FALSE(plan.fault(0).has_lasts_s());
  EXPECT_EQ(plan.fault(1).times(), 1u);
  EXPECT_EQ(plan.fault(1).pause_s().max(), 0);
  EXPECT_EQ(plan.fault(2).times(), 0u);
  EXPECT_EQ(plan.fault(2).lasts_s().max(), plan.fault(2).lasts_s().min());
  EXPECT_EQ(plan.fault(2).share(), 0.8);
  EXPECT_EQ(plan.fault(2).period_s(), 0.1);
  EXPECT_OK(ValidateChaosPlan(plan));
}

TEST(ValidateChaosPlan, JudgesAMessage) {
  EXPECT_THAT(ValidateChaosPlan(ChaosPlan()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least one fault")));
}

TEST(TaskPattern, MatchesTasksByRoleAndNumber) {
  const auto matches = [](const std::string& pattern, const std::string& task) {
    return ParseTaskPattern(pattern)->Matches(task);
  };
  EXPECT_TRUE(matches("ps/1", "ps/1"));
  EXPECT_FALSE(matches("ps/1", "ps/11"));
  EXPECT_FALSE(matches("ps/1", "worker/1"));
  EXPECT_TRUE(matches("worker/*", "worker/17"));
  EXPECT_FALSE(matches("worker/*", "ps/1"));
  EXPECT_TRUE(matches("*", "coordinator/0"));
  EXPECT_FALSE(matches("*", "coordinator"));
  EXPECT_FALSE(matches("*", "ps/x"));
  for (const char* text : {"", "/", "ps", "ps/", "ps/01", "ps/+1", "ps/ 1", "PS/1", "ps/1/2", "**",
                           "worker/-1", "worker/99999999999"}) {
    EXPECT_FALSE(ParseTaskPattern(text).ok()) << text;
  }
}

}  // namespace
}  // namespace monsoon
