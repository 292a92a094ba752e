#include "ps_server/shard/session_window.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

using Place = SessionWindow::Place;

TEST(SessionWindowTest, SequencesStartAtOneAndHaveNoGaps) {
  SessionWindow window;
  EXPECT_EQ(window.Locate(0), Place::kSeen);
  EXPECT_EQ(window.Locate(1), Place::kNext);
  EXPECT_EQ(window.Locate(2), Place::kGap);
  window.RecordApplied(1);
  window.RecordApplied(2);
  EXPECT_EQ(window.last(), 2u);
  EXPECT_EQ(window.applied(), 2u);
  EXPECT_EQ(window.Locate(1), Place::kSeen);
  EXPECT_EQ(window.Locate(2), Place::kSeen);
  EXPECT_EQ(window.Locate(3), Place::kNext);
  EXPECT_EQ(window.Locate(4), Place::kGap);
  EXPECT_EQ(window.Locate(UINT64_MAX), Place::kGap);
}

TEST(SessionWindowTest, ARefusalConsumesItsSequenceAndIsRemembered) {
  SessionWindow window;
  window.RecordApplied(1);
  window.RecordRefused(2, "nan");
  window.RecordApplied(3);
  EXPECT_EQ(window.last(), 3u);
  EXPECT_EQ(window.applied(), 2u);
  EXPECT_EQ(window.Locate(2), Place::kRefused);
  EXPECT_EQ(window.refusal(2), "nan");
  EXPECT_EQ(window.Locate(3), Place::kSeen);
}

TEST(SessionWindowTest, ADropConsumesItsSequenceAndIsRememberedForALongTime) {
  SessionWindow window;
  window.RecordApplied(1);
  window.RecordDropped(2);
  window.RecordRefused(3, "nan");
  EXPECT_EQ(window.applied(), 1u);
  EXPECT_EQ(window.Locate(1), Place::kSeen);
  EXPECT_EQ(window.Locate(2), Place::kDropped);
  EXPECT_EQ(window.Locate(3), Place::kRefused);
  EXPECT_EQ(window.dropped(), 0b10u);
  const SessionWindow restored(window.last(), window.applied(), window.dropped());
  EXPECT_EQ(restored.Locate(2), Place::kDropped);
  for (uint64_t i = 4; i < 2 + SessionWindow::kRememberedDrops; ++i) {
    window.RecordApplied(i);
    EXPECT_EQ(window.Locate(2), Place::kDropped);
  }
  window.RecordApplied(2 + SessionWindow::kRememberedDrops);
  EXPECT_EQ(window.Locate(2), Place::kSeen);
}

TEST(SessionWindowTest, ForgetsTheOldestRefusals) {
  SessionWindow window;
  for (uint64_t i = 1; i <= SessionWindow::kRememberedRefusals + 1; ++i) {
    window.RecordRefused(i, "no");
  }
  EXPECT_EQ(window.Locate(1), Place::kSeen);
  EXPECT_EQ(window.Locate(2), Place::kRefused);
}

}  // namespace
}  // namespace monsoon
