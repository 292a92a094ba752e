#include "worker/downpour/fetch_timer.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

double DelayMs(const FetchTimer& timer) { return absl::ToDoubleMilliseconds(timer.Delay()); }

TEST(FetchTimerTest, DoesNotWaitBeforeItHasSeenAStepAndAFetch) {
  FetchTimer timer;
  EXPECT_EQ(timer.Delay(), absl::ZeroDuration());
  timer.NoteStep(absl::Milliseconds(100));
  EXPECT_EQ(timer.Delay(), absl::ZeroDuration());
}

TEST(FetchTimerTest, LeavesTwiceTheFetchBeforeFourFifthsOfTheStep) {
  FetchTimer timer;
  timer.NoteStep(absl::Milliseconds(100));
  timer.NoteFetch(absl::Milliseconds(10));
  EXPECT_DOUBLE_EQ(DelayMs(timer), 60.0);
}

TEST(FetchTimerTest, DoesNotWaitWhereAFetchIsAsLongAsAStep) {
  FetchTimer timer;
  timer.NoteStep(absl::Milliseconds(10));
  timer.NoteFetch(absl::Milliseconds(10));
  EXPECT_EQ(timer.Delay(), absl::ZeroDuration());
}

TEST(FetchTimerTest, OneStoppedStepMovesTheMeanByATenthAtMost) {
  FetchTimer timer;
  timer.NoteFetch(absl::Milliseconds(10));
  timer.NoteStep(absl::Milliseconds(100));
  timer.NoteStep(absl::Seconds(3600));
  // The mean goes from 100 to 110 ms.
  EXPECT_NEAR(DelayMs(timer), 68.0, 1e-3);
}

TEST(FetchTimerTest, AReplicaGoesOnForSoManyStepsLessWhatTheOutcomeTakes) {
  FetchTimer timer;
  EXPECT_EQ(timer.Patience(5), absl::ZeroDuration());
  timer.NoteCompute(absl::Milliseconds(40));
  EXPECT_EQ(timer.Patience(5), absl::Milliseconds(200));
  timer.NotePush(absl::Milliseconds(30));
  EXPECT_EQ(timer.Patience(5), absl::Milliseconds(170));
  EXPECT_EQ(timer.Patience(0), absl::ZeroDuration());
  timer.NoteStep(absl::Hours(1));  // with its waits
  EXPECT_EQ(timer.Patience(1), absl::Milliseconds(10));
}

TEST(FetchTimerTest, FollowsStepsThatGetShorter) {
  FetchTimer timer;
  timer.NoteFetch(absl::Milliseconds(1));
  timer.NoteStep(absl::Milliseconds(1000));
  for (int i = 0; i < 100; ++i) {
    timer.NoteStep(absl::Milliseconds(10));
  }
  EXPECT_NEAR(DelayMs(timer), 6.0, 0.1);
}

}  // namespace
}  // namespace monsoon
