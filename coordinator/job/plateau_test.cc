#include "coordinator/job/plateau.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

std::vector<TestResult> Losses(const std::vector<double>& losses) {
  std::vector<TestResult> results;
  for (const double loss : losses) {
    results.push_back({.loss = loss, .accuracy = 1 - loss});
  }
  return results;
}

uint32_t Count(const Plateau& plateau, const std::vector<double>& losses) {
  return CountPlateaus(plateau, Losses(losses));
}

TEST(PlateauTest, CountsAnewAfterEachAndAfterWhatIsBetter) {
  const Plateau two{.metric = TEST_LOSS, .patience = 2};
  EXPECT_EQ(Count(two, {}), 0u);
  EXPECT_EQ(Count(two, {0.5, 0.5}), 0u);
  EXPECT_EQ(Count(two, {0.5, 0.5, 0.6}), 1u);
  EXPECT_EQ(Count(two, {0.5, 0.6, 0.4, 0.4}), 0u);
  // What is better than before, and not than the best.
  EXPECT_EQ(Count(two, {0.5, 0.9, 0.6}), 1u);
  EXPECT_EQ(Count(two, {0.5, 0.5, 0.5, 0.5}), 1u);
  EXPECT_EQ(Count(two, {0.5, 0.5, 0.5, 0.5, 0.5}), 2u);
  EXPECT_EQ(Count(two, {0.5, 0.5, 0.5, 0.4, 0.5, 0.5}), 2u);
  EXPECT_EQ(Count({.metric = TEST_LOSS, .patience = 1}, {0.5, 0.5, 0.4, 0.45}), 2u);
}

TEST(PlateauTest, ASmallerChangeIsNone) {
  const Plateau plateau{.metric = TEST_LOSS, .patience = 2, .min_change = 0.125};
  EXPECT_EQ(Count(plateau, {0.5, 0.4375, 0.375}), 1u) << "exactly min_change is not above it";
  EXPECT_EQ(Count(plateau, {0.5, 0.4375, 0.3125}), 0u) << "against the best that counted";
}

TEST(PlateauTest, AFigureThatIsNoNumberIsNotBetter) {
  const Plateau two{.metric = TEST_LOSS, .patience = 2};
  const double no_number = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Count(two, {no_number, 0.5, 0.4, 0.3}), 0u) << "the first is nothing to beat";
  EXPECT_EQ(Count(two, {0.5, no_number, no_number}), 1u);
}

TEST(PlateauTest, AccuracyGrows) {
  const Plateau plateau{.metric = TEST_ACCURACY, .patience = 1};
  EXPECT_EQ(Count(plateau, {0.5, 0.4, 0.3}), 0u);
  EXPECT_EQ(Count(plateau, {0.3, 0.4}), 1u);
}

TEST(PlateauTest, PassesOverWhatHasNoFigureAndTheFinalRun) {
  std::vector<TestResult> results = Losses({0.5, 0.5, 0.5});
  const Plateau plateau{.metric = TEST_ACCURACY, .patience = 1};
  EXPECT_EQ(CountPlateaus(plateau, results), 2u);
  results[1].metrics = {{"loss", 0.5}};
  EXPECT_EQ(CountPlateaus(plateau, results), 1u);
  results[2].final = true;
  EXPECT_EQ(CountPlateaus(plateau, results), 0u);
}

TEST(PlateauTest, DefaultsAndText) {
  EXPECT_EQ(Plateau::From(PlateauSchedule()).patience, 2u);
  EXPECT_EQ(Plateau::From(PlateauSchedule()).Text(),
            "the test loss has not become better in 2 evaluations");
  EarlyStop early;
  early.set_metric(TEST_ACCURACY);
  early.set_patience(1);
  early.set_min_change(0.01);
  EXPECT_EQ(Plateau::From(early).Text(),
            "the test accuracy has not become better by 0.01 in 1 evaluation");
}

}  // namespace
}  // namespace monsoon
