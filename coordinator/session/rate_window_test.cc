#include "coordinator/session/rate_window.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(RateWindowTest, SteadyRate) {
  RateWindow window(absl::Seconds(5));
  EXPECT_FALSE(window.Rate(absl::Seconds(0)).has_value());
  for (int i = 0; i <= 100; ++i) {
    window.Add(absl::Milliseconds(100 * i), 20 * i);
  }
  EXPECT_DOUBLE_EQ(*window.Rate(absl::Seconds(10)), 200.0);
}

TEST(RateWindowTest, ForgetsWhatIsOlderThanTheWindow) {
  RateWindow window(absl::Seconds(5));
  window.Add(absl::Seconds(0), 0);
  window.Add(absl::Seconds(1), 1000000);
  for (int i = 2; i <= 20; ++i) {
    window.Add(absl::Seconds(i), 1000000 + 10 * (i - 1));
  }
  EXPECT_DOUBLE_EQ(*window.Rate(absl::Seconds(20)), 10.0);
  // Nothing new: the rate falls.
  EXPECT_LT(*window.Rate(absl::Seconds(60)), 2.0);
}

TEST(RateWindowTest, ASteadyRateGoesByHalfOfWhatIsKnown) {
  RateWindow window(absl::Minutes(30), absl::Seconds(1));
  for (int i = 0; i <= 600; ++i) {
    window.Add(absl::Seconds(i), 100 * i);
  }
  EXPECT_DOUBLE_EQ(*window.SteadyRate(absl::Seconds(600), absl::Minutes(1)), 100.0);
  // A stall of 10 s in ten minutes is no reason to tell another end.
  EXPECT_NEAR(*window.SteadyRate(absl::Seconds(610), absl::Minutes(1)), 97.0, 1.0);
  // At the beginning there is not more than that.
  RateWindow young(absl::Minutes(30), absl::Seconds(1));
  young.Add(absl::Seconds(0), 0);
  young.Add(absl::Seconds(2), 100);
  EXPECT_DOUBLE_EQ(*young.SteadyRate(absl::Seconds(2), absl::Minutes(1)), 50.0);
}

TEST(RateWindowTest, IgnoresATotalThatGoesBackAndShortSpans) {
  RateWindow window(absl::Seconds(5));
  window.Add(absl::Seconds(0), 100);
  window.Add(absl::Seconds(0.2), 200);
  EXPECT_FALSE(window.Rate(absl::Seconds(0.2)).has_value());
  window.Add(absl::Seconds(1), 50);
  EXPECT_DOUBLE_EQ(*window.Rate(absl::Seconds(1)), 100.0);
}

}  // namespace
}  // namespace monsoon
