#include "ps_server/client/round_wait.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

constexpr absl::Duration kSecond = absl::Seconds(1);

TEST(RoundWaitTest, StandsStillWhereSomeAreOverAndNoOtherBecomesSo) {
  RoundWait wait;
  wait.Begin(absl::ZeroDuration());
  wait.NoteOver(kSecond);
  EXPECT_FALSE(wait.StandsStill(9 * kSecond));  // the others have not answered yet
  wait.NoteOpen("round 3 waits for worker/1");
  EXPECT_FALSE(wait.StandsStill(kSecond + RoundWait::kPatience - absl::Milliseconds(1)));
  EXPECT_TRUE(wait.StandsStill(kSecond + RoundWait::kPatience));
  EXPECT_FALSE(wait.StandsStill(kSecond + RoundWait::kPatience));  // now and then
  EXPECT_TRUE(wait.StandsStill(kSecond + 2 * RoundWait::kPatience));
}

TEST(RoundWaitTest, ARoundOfAllShardsIsAnOrdinaryWait) {
  RoundWait wait;
  wait.Begin(absl::ZeroDuration());
  wait.NoteOpen("round 3 waits for worker/1");
  EXPECT_FALSE(wait.StandsStill(absl::Hours(1)));
}

TEST(RoundWaitTest, TriesOfOneFetchAreOneWait) {
  RoundWait wait;
  absl::Duration now;
  for (int i = 0; i < 3; ++i, now += kSecond) {
    wait.Begin(now);
    wait.NoteOver(now);  // the same each time
    wait.NoteOpen("round 3 waits for worker/1");
  }
  EXPECT_TRUE(wait.StandsStill(now));
  // Another one comes: it goes on.
  wait.NoteOver(now);
  EXPECT_FALSE(wait.StandsStill(now + kSecond));
  wait.End();
  wait.Begin(now + 9 * kSecond);
  wait.NoteOver(now + 9 * kSecond);
  wait.NoteOpen("round 4 waits for worker/1");
  EXPECT_FALSE(wait.StandsStill(now + 10 * kSecond));
}

}  // namespace
}  // namespace monsoon
