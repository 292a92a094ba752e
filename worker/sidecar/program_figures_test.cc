#include "worker/sidecar/program_figures.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(ProgramFiguresTest, WhatTheCoordinatorSaysIsToldAtOnce) {
  StatsCollector stats;
  ManualClock clock;
  SessionControl control(&clock, absl::Seconds(3));
  ProgramFigures figures(/*worker=*/2, /*sessions=*/1, /*fragments=*/1, &stats, &control, &clock);
  EXPECT_EQ(figures.Get().local_steps, 0u);
  control.TellReplicas(3);
  control.TellLocalSteps(25);
  stats.AddFetch(FetchStats(), absl::ZeroDuration());
  stats.AddRefused();
  EXPECT_EQ(figures.Get().replicas, 3u);
  EXPECT_EQ(figures.Get().local_steps, 25u);
  EXPECT_EQ(figures.Get().refused, 1u) << "by which it finds out whether it may go on";
  EXPECT_EQ(figures.Get().fetches, 0u) << "what it has done may be a little older";
  clock.Advance(absl::Milliseconds(100));
  EXPECT_EQ(figures.Get().fetches, 1u);
  EXPECT_EQ(figures.Get().local_steps, 25u);
}

// Each fragment is pushed once in so many steps, one after another.
TEST(ProgramFiguresTest, LocalStepsAreThoseBetweenTwoPushes) {
  StatsCollector stats;
  ManualClock clock;
  SessionControl control(&clock, absl::Seconds(3));
  ProgramFigures figures(/*worker=*/2, /*sessions=*/1, /*fragments=*/4, &stats, &control, &clock);
  control.TellLocalSteps(25);
  EXPECT_EQ(figures.Get().local_steps, 7u);
}

}  // namespace
}  // namespace monsoon
