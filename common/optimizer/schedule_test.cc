#include "common/optimizer/schedule.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"

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

Schedule Parse(const std::string& text) {
  Schedule schedule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &schedule));
  FillScheduleDefaults(&schedule);
  return schedule;
}

using Factors = std::map<uint64_t, double>;

void ExpectFactors(const std::string& text, const Factors& factors) {
  const Schedule schedule = Parse(text);
  EXPECT_OK(ValidateSchedule(schedule)) << text;
  for (const auto& [k, factor] : factors) {
    EXPECT_NEAR(ScheduleFactor(schedule, k), factor, 1e-12) << text << " " << k;
  }
}

// The values of torch 1.13's LinearLR, PolynomialLR and OneCycleLR.
TEST(ScheduleTest, FactorsAreTorchs) {
  ExpectFactors("linear { pushes: 10 final: 0.2 }",
                {{0, 1.0}, {1, 0.92}, {5, 0.6}, {9, 0.28}, {10, 0.2}, {12, 0.2}});
  ExpectFactors("polynomial { pushes: 10 }",
                {{0, 1.0}, {1, 0.81}, {5, 0.25}, {9, 0.01}, {10, 0.0}, {12, 0.0}});
  ExpectFactors("one_cycle { pushes: 100 }", {{0, 0.04},
                                              {1, 0.042813780565907456},
                                              {14, 0.49401332387899954},
                                              {29, 1.0},
                                              {30, 0.9994965352845243},
                                              {60, 0.5892800902855287},
                                              {98, 0.0005074647154757879},
                                              {99, 4e-06},
                                              {200, 4e-06}});
  ExpectFactors("one_cycle { pushes: 10 rise: 0.5 start: 0.1 final: 0.001 }",
                {{0, 0.1},
                 {1, 0.23180194846605362},
                 {4, 1.0},
                 {5, 0.9046039886902862},
                 {7, 0.3461460113097138},
                 {9, 0.001}});
}

TEST(ScheduleTest, ACycleMayBeginAtTheTopAndEndAtZero) {
  ExpectFactors("one_cycle { pushes: 2 }", {{0, 1.0}, {1, 4e-6}});
  ExpectFactors("one_cycle { pushes: 1 final: 0 }", {{0, 1.0}, {1, 0.0}});
}

TEST(ScheduleTest, ThePowerOfAPolynomialIsGiven) {
  ExpectFactors("polynomial { pushes: 4 power: 1 final: 0.5 }", {{1, 0.875}, {3, 0.625}, {4, 0.5}});
  ExpectFactors("polynomial { pushes: 4 power: 0.5 }", {{3, 0.5}, {4, 0.0}});
}

// lrate / d_model^-0.5 of Vaswani et al. 2017, equation 3, times the root of warmup_steps.
TEST(ScheduleTest, TheInverseRootFallsFromItsNumberOn) {
  ExpectFactors("inverse_root { pushes: 100 }",
                {{0, 1.0}, {100, 1.0}, {400, 0.5}, {10'000, 0.1}, {1'000'000, 0.01}});
  ExpectFactors("inverse_root { pushes: 100 } warm_up_pushes: 100",
                {{0, 0.01}, {49, 0.5}, {99, 1.0}, {400, 0.5}});
}

TEST(ScheduleTest, PointsAreJoinedByLinesOrHold) {
  const std::string points =
      "points { point { pushes: 10 factor: 1 } point { pushes: 20 factor: 0.5 } "
      "point { pushes: 20 factor: 0.2 } point { pushes: 40 factor: 2 } ";
  ExpectFactors(points + "}", {{0, 1.0},
                               {10, 1.0},
                               {15, 0.75},
                               {19, 0.55},
                               {20, 0.2},
                               {30, 1.1},
                               {40, 2.0},
                               {UINT64_MAX, 2.0}});
  ExpectFactors(points + "hold: true }",
                {{0, 1.0}, {19, 1.0}, {20, 0.2}, {39, 0.2}, {40, 2.0}, {99, 2.0}});
}

TEST(ScheduleTest, WhatNobodyHasCountedLeavesTheRate) {
  for (const char* const kind : {"cosine", "linear", "polynomial", "inverse_root", "one_cycle"}) {
    ExpectFactors(absl::StrCat(kind, " { share: 1 }"), {{0, 1.0}, {1000, 1.0}});
  }
}

TEST(ScheduleTest, RefusesWhatHasNoLengthOrOrder) {
  const auto refusal = [](const std::string& text) {
    return std::string(ValidateSchedule(Parse(text)).message());
  };
  EXPECT_EQ(refusal("linear { final: 0.1 }"), "schedule.linear.pushes must be at least 1");
  EXPECT_EQ(refusal("one_cycle { }"), "schedule.one_cycle.pushes must be at least 1");
  EXPECT_EQ(refusal("points { }"), "schedule.points has no point");
  EXPECT_EQ(refusal("points { point { pushes: 5 factor: 1 } point { factor: 1 } }"),
            "schedule.points point 2 comes before point 1");
  EXPECT_EQ(refusal("points { point { share: 0.5 factor: 1 } point { share: 0.4 factor: 1 } }"),
            "schedule.points point 2 comes before point 1");
  EXPECT_EQ(refusal("points { point { factor: 1 } point { share: 0.4 factor: 0 } }"), "");
  EXPECT_THAT(refusal("points { point { factor: -1 } }"), ::testing::HasSubstr("factor"));
  EXPECT_THAT(refusal("polynomial { pushes: 9 power: 101 }"), ::testing::HasSubstr("power"));
  EXPECT_THAT(refusal("one_cycle { pushes: 9 rise: 1 }"), ::testing::HasSubstr("rise"));
  EXPECT_THAT(refusal("one_cycle { pushes: 9 start: 1.5 }"), ::testing::HasSubstr("start"));
}

}  // namespace
}  // namespace monsoon
