#include "coordinator/session/step_pace.h"

#include <limits>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(StepPaceTest, StepsAreInProportionToSpeed) {
  StepPace pace(1000);
  const double speeds[] = {1, 1.3, 2, 4};
  for (uint32_t worker = 0; worker < 4; ++worker) {
    pace.Note(worker, 20 / speeds[worker]);
  }
  const uint32_t steps[] = {250, 325, 500, 1000};
  for (uint32_t worker = 0; worker < 4; ++worker) {
    EXPECT_EQ(pace.LocalSteps(worker), steps[worker]) << worker;
  }
}

TEST(StepPaceTest, ThereIsNothingToSayBeforeAStepTimeIsTold) {
  StepPace pace(100);
  EXPECT_EQ(pace.LocalSteps(0), 0u);
  for (const double nothing : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
    pace.Note(0, nothing);
    EXPECT_EQ(pace.LocalSteps(0), 0u) << nothing;
  }
  pace.Note(1, 10);
  EXPECT_EQ(pace.LocalSteps(0), 0u);
  EXPECT_EQ(pace.LocalSteps(1), 100u) << "alone";
  // What was told stands.
  pace.Note(1, 0);
  EXPECT_EQ(pace.LocalSteps(1), 100u);
}

TEST(StepPaceTest, EveryoneTakesAtLeastOneStepAndAtMostAll) {
  StepPace pace(3);
  pace.Note(0, 1e-310);  // its speed is no finite number
  pace.Note(1, 1e300);
  pace.Note(2, 5e-310);
  EXPECT_EQ(pace.LocalSteps(0), 3u);
  EXPECT_EQ(pace.LocalSteps(1), 1u);
  EXPECT_EQ(pace.LocalSteps(2), 1u);
  StepPace one(1);
  one.Note(0, 10);
  one.Note(1, 20);
  EXPECT_EQ(one.LocalSteps(0), 1u);
  EXPECT_EQ(one.LocalSteps(1), 1u);
}

TEST(StepPaceTest, ANumberStandsUntilItIsATenthOff) {
  StepPace pace(100);
  pace.Note(0, 10);
  pace.Note(1, 20);
  ASSERT_EQ(pace.LocalSteps(1), 50u);
  for (const double step_ms : {19.0, 21.0, 18.2, 22.0, 20.0}) {
    pace.Note(1, step_ms);
    EXPECT_EQ(pace.LocalSteps(1), 50u) << step_ms;
  }
  pace.Note(1, 17);
  EXPECT_EQ(pace.LocalSteps(1), 59u);
  pace.Note(1, 18);
  EXPECT_EQ(pace.LocalSteps(1), 59u) << "nor does it go back at once";
  pace.Note(1, 25);
  EXPECT_EQ(pace.LocalSteps(1), 40u);
}

TEST(StepPaceTest, SmallNumbersDoNotGoToAndFro) {
  StepPace pace(3);
  pace.Note(0, 10);
  pace.Note(1, 19.9);
  ASSERT_EQ(pace.LocalSteps(1), 2u);  // 1.508
  pace.Note(1, 20.1);
  EXPECT_EQ(pace.LocalSteps(1), 2u);  // 1.493
  pace.Note(1, 25);
  EXPECT_EQ(pace.LocalSteps(1), 1u);  // 1.2
  pace.Note(1, 19.9);
  EXPECT_EQ(pace.LocalSteps(1), 1u);
}

TEST(StepPaceTest, TwoThatAreNearlyEqualBothTakeAll) {
  StepPace pace(100);
  pace.Note(0, 10);
  pace.Note(1, 10.5);
  EXPECT_EQ(pace.LocalSteps(1), 95u);
  pace.Note(1, 9.8);  // the fastest now
  EXPECT_EQ(pace.LocalSteps(1), 100u);
  EXPECT_EQ(pace.LocalSteps(0), 100u);
  pace.Note(1, 10.5);
  EXPECT_EQ(pace.LocalSteps(1), 100u);
}

TEST(StepPaceTest, OneThatJoinsOrLeavesChangesTheOthers) {
  StepPace pace(100);
  pace.Note(2, 40);
  EXPECT_EQ(pace.LocalSteps(2), 100u);
  pace.Note(1, 20);
  EXPECT_EQ(pace.LocalSteps(2), 50u);
  pace.Note(0, 10);
  EXPECT_EQ(pace.LocalSteps(0), 100u);
  EXPECT_EQ(pace.LocalSteps(1), 50u);
  EXPECT_EQ(pace.LocalSteps(2), 25u);
  pace.Forget(0);
  EXPECT_EQ(pace.LocalSteps(0), 0u);
  EXPECT_EQ(pace.LocalSteps(1), 100u);
  EXPECT_EQ(pace.LocalSteps(2), 50u);
  pace.Forget(0);  // it has none
  pace.Forget(1);
  EXPECT_EQ(pace.LocalSteps(2), 100u);
  pace.ForgetAll();
  EXPECT_EQ(pace.LocalSteps(2), 0u);
}

TEST(StepPaceTest, AnotherMostHoldsForAllAtOnce) {
  StepPace pace(1000);
  pace.Note(0, 20);
  pace.Note(1, 10);
  pace.SetMost(990);  // nobody is off by much
  EXPECT_EQ(pace.LocalSteps(0), 495u);
  EXPECT_EQ(pace.LocalSteps(1), 990u);
  pace.SetMost(10);
  EXPECT_EQ(pace.LocalSteps(0), 5u);
  EXPECT_EQ(pace.LocalSteps(1), 10u);
}

}  // namespace
}  // namespace monsoon
