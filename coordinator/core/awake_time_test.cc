#include "coordinator/core/awake_time.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

constexpr absl::Duration kLostAfter = absl::Seconds(10);

TEST(AwakeTimeTest, GoesWithTheClock) {
  AwakeTime time(kLostAfter);
  EXPECT_EQ(time.At(absl::Seconds(100)), absl::Seconds(100));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(time.At(absl::Seconds(100 + i)), absl::Seconds(100 + i));
  }
  EXPECT_FALSE(time.TakeGap());
}

TEST(AwakeTimeTest, AGapIsNobodysSilenceAndToldOnce) {
  AwakeTime time(kLostAfter);
  time.At(absl::Seconds(1));
  EXPECT_LT(time.At(absl::Seconds(36)), absl::Seconds(1) + kLostAfter);
  EXPECT_TRUE(time.TakeGap());
  EXPECT_FALSE(time.TakeGap());
  const absl::Duration after = time.At(absl::Seconds(36));
  EXPECT_EQ(time.At(absl::Seconds(37)), after + absl::Seconds(1));
  EXPECT_FALSE(time.TakeGap());
}

TEST(AwakeTimeTest, AGapOfTheTicksAloneIsToldToo) {
  AwakeTime time(kLostAfter);
  for (int i = 0; i < 20; ++i) {
    time.At(absl::Seconds(i));
    EXPECT_FALSE(time.TakeGap());
  }
  for (int i = 20; i < 30; ++i) {
    time.At(absl::Seconds(i));  // calls are served meanwhile
  }
  EXPECT_TRUE(time.TakeGap());
  EXPECT_FALSE(time.TakeGap());
}

// Of a process that is slow for good, too, time goes on.
TEST(AwakeTimeTest, AProcessThatIsSlowFindsWhoIsLost) {
  AwakeTime time(kLostAfter);
  const absl::Duration began = time.At(absl::ZeroDuration());
  for (int i = 1; i <= 20; ++i) {
    time.At(4 * i * absl::Seconds(1));
    EXPECT_FALSE(time.TakeGap());
  }
  EXPECT_GT(time.At(absl::Seconds(80)), began + 2 * kLostAfter);
  EXPECT_FALSE(time.TakeGap());
}

}  // namespace
}  // namespace monsoon
