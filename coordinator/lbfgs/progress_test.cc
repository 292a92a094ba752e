#include "coordinator/lbfgs/progress.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

constexpr double kRoundoff = 1.2e-7;

// A run at F = 1 whose direction promises `promise` at each of `count` points.
void Points(double f, double promise, size_t count, Progress* progress) {
  for (size_t i = 0; i < count; ++i) {
    progress->AddPoint(f, 1.0, 1.0);
    progress->AddPromise(promise);
  }
}

TEST(ProgressTest, ManySmallPromisesInARowMeanConvergence) {
  Progress progress({}, kRoundoff);
  Points(1.0, 1e-8, 3, &progress);
  Points(1.0, 0.9e-10, Progress::kWindow - 1, &progress);
  EXPECT_FALSE(progress.converged());
  Points(1.0, 0.9e-10, 1, &progress);
  EXPECT_TRUE(progress.converged());
  // One that promises more, and it all begins again.
  Points(1.0, 1e-9, 1, &progress);
  EXPECT_FALSE(progress.converged());
}

TEST(ProgressTest, FewDoWhereTheyAreTiny) {
  Progress progress({}, kRoundoff);
  Points(1.0, 1e-14, 2, &progress);
  EXPECT_FALSE(progress.converged());
  Points(1.0, 1e-14, 1, &progress);
  EXPECT_TRUE(progress.converged());
}

TEST(ProgressTest, APromiseOfWhatDoesNotKnowTheCurvatureIsNone) {
  Progress progress({}, kRoundoff);
  for (size_t i = 0; i < 2 * Progress::kWindow; ++i) {
    progress.AddPoint(1.0, 1.0, 1.0);
    progress.AddPromise(std::nullopt);
  }
  EXPECT_FALSE(progress.converged());
  EXPECT_FALSE(progress.at_float_precision());
  EXPECT_FALSE(progress.below_noise());
}

TEST(ProgressTest, SmallPromisesDoNotConvergeWhileFFalls) {
  Progress progress({}, kRoundoff);
  for (size_t i = 0; i < 2 * Progress::kWindow; ++i) {
    progress.AddPoint(1.0 - 1e-6 * static_cast<double>(i), 1.0, 1.0);
    progress.AddPromise(1e-12);
  }
  EXPECT_FALSE(progress.converged());
}

TEST(ProgressTest, AMinimumOfZeroIsMeasuredByTheStart) {
  Progress progress({}, kRoundoff);
  progress.AddPoint(100.0, 1.0, 1.0);
  Points(1e-30, 1e-26, Progress::kWindow + 1, &progress);
  EXPECT_TRUE(progress.converged());
}

TEST(ProgressTest, TolerancesConvergeAsTheySay) {
  const auto converged = [](const Tolerances& tolerances, double gradient, double w) {
    Progress progress(tolerances, kRoundoff);
    progress.AddPoint(2.0, 8.0, w);
    progress.AddPoint(1.0, gradient, w);
    return progress.converged();
  };
  EXPECT_FALSE(converged({}, 1e-30, 1.0));
  EXPECT_TRUE(converged({}, 0.0, 1.0));
  EXPECT_TRUE(converged({.gradient = 0.1}, 0.1, 1.0));
  EXPECT_FALSE(converged({.gradient = 0.1}, 0.2, 1.0));
  EXPECT_TRUE(converged({.gradient = 0.1}, 0.2, 2.0));
  EXPECT_TRUE(converged({.relative_gradient = 0.1}, 0.8, 1.0));
  EXPECT_FALSE(converged({.relative_gradient = 0.1}, 0.9, 1.0));
}

TEST(ProgressTest, TheChangeOfFIsThatOfTheWindow) {
  Progress progress({.f = 1e-3}, kRoundoff);
  // 1.2e-4 an iteration is 1.2e-3 in ten.
  for (size_t i = 0; i < 2 * Progress::kWindow; ++i) {
    progress.AddPoint(1.0 - 1.2e-4 * static_cast<double>(i), 1.0, 1.0);
    EXPECT_FALSE(progress.converged()) << i;
  }
  const double f = 1.0 - 1.2e-4 * (2 * Progress::kWindow - 1);
  progress.AddPoint(f, 1.0, 1.0);
  EXPECT_FALSE(progress.converged());
  progress.AddPoint(f, 1.0, 1.0);
  EXPECT_TRUE(progress.converged()) << "1.2e-4 * 8";
}

TEST(ProgressTest, WhatCannotGoOnIsAtFloatPrecisionOnlyIfAlmostNothingIsPromised) {
  Progress near({}, kRoundoff);
  Points(1.0, 0.9e-9, 3, &near);
  EXPECT_TRUE(near.at_float_precision());
  EXPECT_TRUE(near.below_noise());
  Progress far({}, kRoundoff);
  Points(1.0, 1e-7, 3, &far);
  EXPECT_FALSE(far.at_float_precision());
  EXPECT_TRUE(far.below_noise()) << "F cannot tell";
  Progress failed({}, kRoundoff);
  Points(1.0, 1e-3, 3, &failed);
  EXPECT_FALSE(failed.below_noise());
}

TEST(ProgressTest, MeasuredNoiseSetsTheFloor) {
  Progress progress({}, kRoundoff);
  progress.AddPoint(0.5, 1.0, 1.0);
  EXPECT_EQ(progress.f_floor(), kRoundoff);
  progress.NoteNoise(1e-6);
  EXPECT_DOUBLE_EQ(progress.f_floor(), 2e-5) << "ten times the noise, relative";
  progress.NoteNoise(1e-12);
  EXPECT_EQ(progress.f_floor(), kRoundoff);
  progress.NoteNoise(0.1);
  EXPECT_EQ(progress.f_floor(), 1e-4);
  EXPECT_THAT(progress.Figures(), HasSubstr("noise of F 2e-01 (relative)"));
}

TEST(ProgressTest, StallsWhenNothingBecomesBetterForLong) {
  Progress progress({}, kRoundoff);
  Points(1.0, 1e-3, Progress::kStalled, &progress);
  EXPECT_FALSE(progress.stalled());
  Points(1.0, 1e-3, 1, &progress);
  EXPECT_TRUE(progress.stalled());
  progress.AddPromise(4e-4);
  EXPECT_FALSE(progress.stalled());
  Points(1.0, 1e-3, Progress::kStalled - 1, &progress);
  progress.AddPoint(1.0, 0.4, 1.0);
  EXPECT_FALSE(progress.stalled()) << "|g| became less than half";
  Points(1.0, 1e-3, Progress::kStalled - 1, &progress);
  progress.AddPoint(0.99, 1.0, 1.0);
  EXPECT_FALSE(progress.stalled());
}

}  // namespace
}  // namespace monsoon
