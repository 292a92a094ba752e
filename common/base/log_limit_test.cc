#include "common/base/log_limit.h"

#include <optional>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(LogLimitTest, LetsOneThroughInAPeriodAndCountsTheOthers) {
  LogLimit limit(absl::Seconds(10));
  EXPECT_EQ(limit.Take(absl::ZeroDuration()), 0u);
  EXPECT_EQ(limit.Take(absl::Seconds(1)), std::nullopt);
  EXPECT_EQ(limit.Take(absl::Seconds(9)), std::nullopt);
  EXPECT_EQ(limit.Take(absl::Seconds(10)), 2u);
  EXPECT_EQ(limit.Take(absl::Seconds(11)), std::nullopt);
  EXPECT_EQ(limit.Take(absl::Seconds(60)), 1u);
}

TEST(LogLimitTest, SaysWhatIsMissing) {
  EXPECT_EQ(LeftOut(0), "");
  EXPECT_EQ(LeftOut(12), " (12 more like it were left out)");
}

}  // namespace
}  // namespace monsoon
