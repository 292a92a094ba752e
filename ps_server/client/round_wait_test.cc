#include "ps_server/client/round_wait.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

constexpr absl::Duration kSecond = absl::Seconds(1);
constexpr absl::Duration kPatience = absl::Seconds(2);

TEST(RoundWaitTest, StandsStillWhereSomeAreOverAndNoOtherBecomesSo) {
  RoundWait wait;
  wait.Begin();
  wait.NoteOver(kSecond);
  EXPECT_FALSE(wait.StandsStill(9 * kSecond, kPatience));  // the others have not answered yet
  wait.NoteOpen("round 3 waits for worker/1");
  EXPECT_FALSE(wait.StandsStill(kSecond + kPatience - absl::Milliseconds(1), kPatience));
  EXPECT_TRUE(wait.StandsStill(kSecond + kPatience, kPatience));
  EXPECT_FALSE(wait.StandsStill(kSecond + kPatience, kPatience));  // now and then
  EXPECT_TRUE(wait.StandsStill(kSecond + 2 * kPatience, kPatience));
}

TEST(RoundWaitTest, ARoundOfAllShardsIsAnOrdinaryWait) {
  RoundWait wait;
  wait.Begin();
  wait.NoteOpen("round 3 waits for worker/1");
  EXPECT_FALSE(wait.StandsStill(absl::Hours(1), kPatience));
}

TEST(RoundWaitTest, TriesOfOneFetchAreOneWait) {
  RoundWait wait;
  absl::Duration now;
  for (int i = 0; i < 3; ++i, now += kSecond) {
    wait.Begin();
    wait.NoteOver(now);  // the same each time
    wait.NoteOpen("round 3 waits for worker/1");
  }
  EXPECT_TRUE(wait.StandsStill(now, kPatience));
  // Another one comes: it goes on.
  wait.NoteOver(now);
  EXPECT_FALSE(wait.StandsStill(now + kSecond, kPatience));
  wait.End();
  wait.Begin();
  wait.NoteOver(now + 9 * kSecond);
  wait.NoteOpen("round 4 waits for worker/1");
  EXPECT_FALSE(wait.StandsStill(now + 10 * kSecond, kPatience));
}

}  // namespace
}  // namespace monsoon
