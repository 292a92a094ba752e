#include "coordinator/job/test_schedule.h"

#include "coordinator/state/replayed_state.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(EvaluationScheduleTest, EachMarkOnceAndTogetherOnce) {
  testing::ReplayedState state;
  TestSchedule schedule(0.5, false, state.Begun());
  schedule.NoteProgress(0.49);
  EXPECT_TRUE(schedule.idle());
  schedule.NoteProgress(0.5);
  EXPECT_EQ(schedule.Assign(0, {0}), 1u);
  EXPECT_TRUE(schedule.Complete(0, 1));
  schedule.NoteProgress(0.9);
  EXPECT_TRUE(schedule.idle());
  schedule.NoteProgress(2.1);
  EXPECT_EQ(schedule.Assign(0, {0}), 2u);
  EXPECT_TRUE(schedule.Complete(0, 2));
  EXPECT_TRUE(schedule.idle());
}

TEST(EvaluationScheduleTest, RoundRobin) {
  testing::ReplayedState state;
  TestSchedule schedule(1, false, state.Begun());
  uint64_t id = 0;
  for (const uint32_t worker : {0u, 2u, 5u, 0u, 2u}) {
    schedule.NoteProgress(static_cast<double>(++id));
    for (const uint32_t other : {0u, 2u, 5u}) {
      if (other != worker) {
        EXPECT_FALSE(schedule.Assign(other, {0, 2, 5}).has_value());
      }
    }
    EXPECT_EQ(schedule.Assign(worker, {0, 2, 5}), id);
    EXPECT_EQ(schedule.Assign(worker, {0, 2, 5}), id);  // Until it is reported.
    EXPECT_TRUE(schedule.Complete(worker, id));
  }
}

TEST(EvaluationScheduleTest, LostEvaluatorIsReplaced) {
  testing::ReplayedState state;
  TestSchedule schedule(0, false, state.Begun());
  schedule.RequestFinal();
  EXPECT_EQ(schedule.Assign(0, {0, 1}), 1u);
  EXPECT_FALSE(schedule.Assign(1, {0, 1}).has_value());
  schedule.Remove(0);
  EXPECT_EQ(schedule.Assign(1, {1}), 2u);
  EXPECT_FALSE(schedule.Complete(0, 1));
  EXPECT_FALSE(schedule.final_done());
  EXPECT_TRUE(schedule.assigned_final());
  EXPECT_TRUE(schedule.Complete(1, 2));
  EXPECT_TRUE(schedule.final_done());
}

TEST(EvaluationScheduleTest, FinalComesAfterThePeriodicOne) {
  testing::ReplayedState state;
  TestSchedule schedule(1, false, state.Begun());
  schedule.NoteProgress(1);
  EXPECT_EQ(schedule.Assign(0, {0, 1}), 1u);
  schedule.RequestFinal();
  EXPECT_FALSE(schedule.Assign(1, {0, 1}).has_value());
  EXPECT_TRUE(schedule.Complete(0, 1));
  EXPECT_FALSE(schedule.final_done());
  EXPECT_EQ(schedule.Assign(1, {0, 1}), 2u);
  EXPECT_TRUE(schedule.Complete(1, 2));
  EXPECT_TRUE(schedule.final_done());
}

}  // namespace
}  // namespace monsoon
