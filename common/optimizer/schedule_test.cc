#include "common/optimizer/schedule.h"

#include <memory>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(ScheduleTest, AnEmptyOneIsConstant) {
  EXPECT_EQ(ScheduleFactor({}, 0), 1.0);
  EXPECT_EQ(ScheduleFactor({}, UINT64_MAX), 1.0);
}

TEST(ScheduleTest, StepDropsAtWholeMultiples) {
  Schedule schedule;
  schedule.mutable_step()->set_every_pushes(100);
  schedule.mutable_step()->set_factor(0.5);
  EXPECT_EQ(ScheduleFactor(schedule, 0), 1.0);
  EXPECT_EQ(ScheduleFactor(schedule, 99), 1.0);
  EXPECT_EQ(ScheduleFactor(schedule, 100), 0.5);
  EXPECT_EQ(ScheduleFactor(schedule, 399), 0.125);
}

TEST(ScheduleTest, CosineGoesFromOneToFinalAndStays) {
  Schedule schedule;
  schedule.mutable_cosine()->set_pushes(1000);
  schedule.mutable_cosine()->set_final(0.2);
  EXPECT_EQ(ScheduleFactor(schedule, 0), 1.0);
  EXPECT_NEAR(ScheduleFactor(schedule, 500), 0.6, 1e-12);
  EXPECT_NEAR(ScheduleFactor(schedule, 250), 0.2 + 0.8 * (1.0 + 0.7071067811865476) / 2, 1e-12);
  EXPECT_NEAR(ScheduleFactor(schedule, 1000), 0.2, 1e-12);
  EXPECT_NEAR(ScheduleFactor(schedule, 1'000'000), 0.2, 1e-12);
}

TEST(ScheduleTest, WarmUpClimbsInEqualSteps) {
  Schedule schedule;
  schedule.set_warm_up_pushes(4);
  EXPECT_EQ(ScheduleFactor(schedule, 0), 0.25);
  EXPECT_EQ(ScheduleFactor(schedule, 1), 0.5);
  EXPECT_EQ(ScheduleFactor(schedule, 3), 1.0);
  EXPECT_EQ(ScheduleFactor(schedule, 4), 1.0);
  schedule.mutable_step()->set_every_pushes(2);
  schedule.mutable_step()->set_factor(0.5);
  EXPECT_EQ(ScheduleFactor(schedule, 2), 0.75 * 0.5);
}

TEST(ScheduleTest, WhatWasDoneBeforeCountsButNotForTheWarmUp) {
  Schedule schedule;
  schedule.set_warm_up_pushes(4);
  schedule.mutable_step()->set_every_pushes(10);
  schedule.mutable_step()->set_factor(0.5);
  schedule.set_before(19);
  EXPECT_EQ(ScheduleFactor(schedule, 0), 0.25 * 0.5);
  EXPECT_EQ(ScheduleFactor(schedule, 1), 0.5 * 0.25);
  EXPECT_EQ(ScheduleFactor(schedule, 11), 0.125);
}

TEST(ScheduleTest, APlateauReducesToItsLowerEnd) {
  Schedule schedule;
  schedule.mutable_plateau();
  EXPECT_EQ(ScheduleFactor(schedule, 7), 1.0);
  schedule.mutable_plateau()->set_reductions(2);
  EXPECT_EQ(ScheduleFactor(schedule, 7), 0.25);
  EXPECT_EQ(ScheduleFactor(schedule, 7, 3), 0.125);
  schedule.mutable_plateau()->set_factor(0.1);
  EXPECT_DOUBLE_EQ(ScheduleFactor(schedule, 7), 0.01);
  schedule.mutable_plateau()->set_min_factor(0.05);
  EXPECT_EQ(ScheduleFactor(schedule, 7), 0.05);
  schedule.set_warm_up_pushes(10);
  EXPECT_DOUBLE_EQ(ScheduleFactor(schedule, 7), 0.05 * 0.8);
}

TEST(ScheduleTest, ARateInUseIsReduced) {
  Schedule schedule;
  schedule.mutable_plateau()->set_reductions(9);
  const auto reductions = std::make_shared<RateReductions>(0);
  const RateSchedule rate(0.5, schedule, reductions);
  const RateSchedule copy = rate;
  EXPECT_EQ(rate.At(3), 0.5f);
  reductions->store(2);
  EXPECT_EQ(rate.At(3), 0.125f);
  EXPECT_EQ(copy.At(3), 0.125f);
}

TEST(ScheduleTest, APlateausFieldsAreChecked) {
  Schedule schedule;
  PlateauSchedule* const plateau = schedule.mutable_plateau();
  EXPECT_TRUE(ValidateSchedule(schedule).ok());
  plateau->set_factor(1);
  EXPECT_FALSE(ValidateSchedule(schedule).ok());
  plateau->set_factor(0.5);
  plateau->set_min_factor(-0.1);
  EXPECT_FALSE(ValidateSchedule(schedule).ok());
  plateau->set_min_factor(0);
  plateau->set_min_change(-1);
  EXPECT_FALSE(ValidateSchedule(schedule).ok());
}

TEST(ScheduleTest, TheRateIsRoundedOnce) {
  Schedule schedule;
  schedule.set_warm_up_pushes(3);
  EXPECT_EQ(RateSchedule(0.1, schedule).At(0), static_cast<float>(0.1 * (1.0 / 3.0)));
  EXPECT_EQ(RateSchedule(0.1, {}).At(7), 0.1f);
}

}  // namespace
}  // namespace monsoon
