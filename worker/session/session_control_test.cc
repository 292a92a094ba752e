#include "worker/session/session_control.h"

#include <thread>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

using State = SessionControl::State;

TEST(SessionControlTest, SilencePausesAndAVoiceResumes) {
  ManualClock clock;
  SessionControl control(&clock, absl::Seconds(3));
  clock.Advance(absl::Seconds(3));
  EXPECT_FALSE(control.paused());
  clock.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(control.paused());
  std::thread voice([&] { control.Heard(); });
  EXPECT_EQ(control.AwaitGo(), State::kRunning);
  voice.join();
  EXPECT_FALSE(control.paused());
}

TEST(SessionControlTest, StopEndsAPauseAndASleep) {
  ManualClock clock;
  SessionControl control(&clock, absl::Seconds(3));
  clock.Advance(absl::Seconds(10));
  std::thread stopper([&] { control.Stop(); });
  EXPECT_EQ(control.AwaitGo(), State::kStop);
  stopper.join();
  EXPECT_EQ(control.Sleep(absl::Hours(1)), State::kStop);
}

TEST(SessionControlTest, ASleepOfADrainedSessionIsOneUntilItIsStopped) {
  SessionControl control(Clock::Real(), absl::Seconds(3));
  control.Drain();
  const absl::Duration begin = Clock::Real()->Now();
  EXPECT_EQ(control.Sleep(absl::Milliseconds(5)), State::kDrain);
  EXPECT_GE(Clock::Real()->Now() - begin, absl::Milliseconds(5));
  std::thread stopper([&] { control.Stop(); });
  EXPECT_EQ(control.Sleep(absl::Hours(1)), State::kStop);
  stopper.join();
}

TEST(SessionControlTest, StopCallsBackOnceEvenWhenLate) {
  SessionControl control(Clock::Real(), absl::Seconds(3));
  int calls = 0;
  control.OnStop([&] { ++calls; });
  control.Stop();
  control.Stop();
  EXPECT_EQ(calls, 1);
  control.OnStop([&] { calls += 10; });
  EXPECT_EQ(calls, 11);
}

TEST(SessionControlTest, DrainDoesNotUndoAStop) {
  SessionControl control(Clock::Real(), absl::Seconds(3));
  control.Drain();
  EXPECT_EQ(control.state(), State::kDrain);
  control.Stop();
  control.Drain();
  EXPECT_EQ(control.state(), State::kStop);
}

TEST(SessionControlTest, SettingsAreToldOnceForEachRevision) {
  SessionControl control(Clock::Real(), absl::Seconds(3));
  EXPECT_EQ(control.NewerSettings(0), nullptr);
  Downpour downpour;
  control.TellSettings(0, downpour);
  EXPECT_EQ(control.NewerSettings(0), nullptr);
  downpour.set_staleness_bound(4);
  control.TellSettings(2, downpour);
  ASSERT_NE(control.NewerSettings(0), nullptr);
  EXPECT_EQ(control.NewerSettings(1)->revision, 2u);
  EXPECT_EQ(control.NewerSettings(1)->downpour.staleness_bound(), 4u);
  EXPECT_EQ(control.NewerSettings(2), nullptr);
  downpour.set_staleness_bound(5);
  control.TellSettings(1, downpour);
  control.TellSettings(2, downpour);
  EXPECT_EQ(control.NewerSettings(1)->downpour.staleness_bound(), 4u);
}

}  // namespace
}  // namespace monsoon
