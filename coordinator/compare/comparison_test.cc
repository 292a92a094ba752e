#include "coordinator/compare/comparison.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

JobDescription Described() {
  JobDescription job;
  job.mutable_summary()->set_state(SUCCEEDED);
  job.mutable_summary()->set_elapsed_s(12.5);
  job.mutable_progress()->set_epoch(2);
  job.mutable_progress()->set_examples(2000);
  job.mutable_progress()->set_loss(0.75);
  job.mutable_data()->set_examples(1000);
  job.mutable_counts()->set_steps(40);
  job.mutable_counts()->set_bytes_fetched(5000);
  job.mutable_counts()->set_bytes_pushed(6000);
  return job;
}

void AddTest(double epoch, double elapsed_s, std::optional<double> accuracy, JobDescription* job) {
  JobDescription::EvaluationResult* const test = job->add_evaluation();
  test->set_epoch(epoch);
  test->set_elapsed_s(elapsed_s);
  test->set_test_loss(1 / (1 + elapsed_s));
  if (accuracy.has_value()) {
    test->set_test_accuracy(*accuracy);
  }
}

RunResult RunOf(std::optional<double> to_s, std::vector<CurvePoint> curve = {}) {
  RunResult run{.state = "SUCCEEDED", .curve = std::move(curve)};
  run.figures.to_s = to_s;
  return run;
}

TEST(FiguresTest, AreThoseOfTheDescription) {
  JobDescription job = Described();
  job.set_final_test_accuracy(0.9);
  job.set_final_loss(0.3);
  (*job.mutable_staleness())[0] = 50;
  (*job.mutable_staleness())[2] = 49;
  (*job.mutable_staleness())[7] = 1;
  const RunFigures figures = FiguresOf(Job(), job, std::nullopt);
  EXPECT_EQ(figures.final_test_accuracy, 0.9);
  EXPECT_EQ(figures.final_loss, 0.3);
  EXPECT_EQ(figures.training_loss, 0.75);
  EXPECT_EQ(figures.elapsed_s, 12.5);
  EXPECT_EQ(figures.examples, 2000);
  EXPECT_EQ(figures.steps, 40);
  EXPECT_EQ(figures.bytes_fetched, 5000);
  EXPECT_EQ(figures.bytes_pushed, 6000);
  EXPECT_EQ(figures.staleness_p50, 0);
  EXPECT_EQ(figures.staleness_p99, 2);
  EXPECT_EQ(figures.staleness_max, 7);
  EXPECT_EQ(figures.to_s, std::nullopt);
}

TEST(FiguresTest, OnlyBoundsMakeReplicasWaitOrPushesDrop) {
  JobDescription description = Described();
  description.mutable_counts()->set_dropped(3);
  description.mutable_counts()->set_bound_wait_ms(1500);
  Job job;
  EXPECT_EQ(FiguresOf(job, description, {}).bound_wait_ms, std::nullopt);
  EXPECT_EQ(FiguresOf(job, description, {}).dropped, std::nullopt);
  job.mutable_downpour()->set_staleness_bound(0);
  EXPECT_EQ(FiguresOf(job, description, {}).bound_wait_ms, 1500);
  EXPECT_EQ(FiguresOf(job, description, {}).dropped, std::nullopt);
  job.mutable_downpour()->set_staleness_policy(DROP_OLDER);
  EXPECT_EQ(FiguresOf(job, description, {}).bound_wait_ms, std::nullopt);
  EXPECT_EQ(FiguresOf(job, description, {}).dropped, 3);
}

TEST(FiguresTest, WhatWasNotMeasuredIsNothing) {
  JobDescription job;
  job.mutable_progress()->set_loss(std::numeric_limits<double>::quiet_NaN());
  const RunFigures figures = FiguresOf(Job(), job, 0.5);
  EXPECT_EQ(figures.final_test_accuracy, std::nullopt);
  EXPECT_EQ(figures.final_loss, std::nullopt);
  EXPECT_EQ(figures.training_loss, std::nullopt);
  EXPECT_EQ(figures.staleness_p50, std::nullopt);
  EXPECT_EQ(figures.to_s, std::nullopt);
}

TEST(FiguresTest, TheFirstTestThatIsGoodEnoughCounts) {
  JobDescription job = Described();
  AddTest(0.5, 3, std::nullopt, &job);  // tells none
  AddTest(1, 6, 0.87, &job);
  AddTest(1.5, 9, 0.88, &job);
  AddTest(2, 12, 0.95, &job);
  EXPECT_EQ(FiguresOf(Job(), job, 0.88).to_s, 9);
  EXPECT_EQ(FiguresOf(Job(), job, 0.88).to_examples, 1500);
  EXPECT_EQ(FiguresOf(Job(), job, 0.96).to_s, std::nullopt);
  EXPECT_EQ(FiguresOf(Job(), job, 0.96).to_examples, std::nullopt);
}

TEST(CurveTest, IsOfWhatIsAskedFor) {
  JobDescription job = Described();
  AddTest(1, 1, 0.5, &job);
  AddTest(2, 3, std::nullopt, &job);
  EXPECT_THAT(CurveFrom(job, CurveOf::kTestAccuracy), ElementsAre(CurvePoint{1, 0.5}));
  EXPECT_THAT(CurveFrom(job, CurveOf::kTestLoss),
              ElementsAre(CurvePoint{1, 0.5}, CurvePoint{3, 0.25}));
  EXPECT_THAT(CurveFrom(job, CurveOf::kTrainingLoss), IsEmpty());
}

TEST(MedianTest, IsTheMiddleOne) {
  EXPECT_EQ(Median({}), std::nullopt);
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({9, 1, 4}), 4);
  EXPECT_EQ(Median({9, 1, 4, 2}), 3);
}

TEST(MedianTest, WhatNeverCameIsLaterThanAll) {
  EXPECT_EQ(Median({5, 2}, 1), 5);
  EXPECT_EQ(Median({5}, 1), std::nullopt);
  EXPECT_EQ(Median({5}, 2), std::nullopt);
  EXPECT_EQ(Median({}, 3), std::nullopt);
  EXPECT_EQ(Median({1, 3, 5}, 1), 4);
}

TEST(MedianTest, RunsThatFailedAreLeftOut) {
  ModeResult mode;
  mode.runs = {RunOf(10), RunOf(std::nullopt), RunOf(12)};
  EXPECT_EQ(MediansOf(mode).to_s, 12);
  mode.runs[1].state = "FAILED";
  EXPECT_EQ(MediansOf(mode).to_s, 11);
}

TEST(CurveTest, TheMedianGoesAsFarAsAllDo) {
  ModeResult mode;
  mode.runs = {RunOf(1, {{1, 0.1}, {2, 0.2}, {3, 0.3}}), RunOf(1, {{2, 0.5}, {4, 0.6}}),
               RunOf(1, {{9, 0.2}, {9, 0.1}})};
  EXPECT_THAT(MedianCurve(mode), ElementsAre(CurvePoint{2, 0.2}, CurvePoint{4, 0.2}));
  mode.runs.resize(1);
  EXPECT_EQ(MedianCurve(mode).size(), 3);
  mode.runs[0].state = "CANCELLED";
  EXPECT_THAT(MedianCurve(mode), IsEmpty());
}

TEST(DeathTest, CostsWhatWasDoneAgainAndTheTime) {
  const JobDescription without = Described();
  JobDescription with = Described();
  with.mutable_progress()->set_examples(2064);  // of 2 epochs of 1000
  with.mutable_summary()->set_elapsed_s(15);
  const DeathResult death{.at_s = 4, .back_after_s = 1.5};
  RunFigures figures;
  TakeDeath(without, with, death, &figures);
  EXPECT_EQ(figures.death_examples_again, 64);
  EXPECT_EQ(figures.death_extra_s, 2.5);
  EXPECT_EQ(figures.death_back_after_s, 1.5);
}

TEST(DeathTest, InBatchAllRunsOfASeedComputeTheSame) {
  JobDescription without = Described();
  without.mutable_sandblaster();
  JobDescription with = without;
  with.mutable_progress()->set_examples(3000);
  with.mutable_progress()->set_epoch(3);  // what was done again counts there
  RunFigures figures;
  TakeDeath(without, with, DeathResult{.at_s = 1}, &figures);
  EXPECT_EQ(figures.death_examples_again, 1000);
}

TEST(DeathTest, OfARunThatFailedNothingIsKnown) {
  const JobDescription without = Described();
  JobDescription with = Described();
  RunFigures figures;
  TakeDeath(without, with, DeathResult(), &figures);  // nobody was killed
  EXPECT_EQ(figures.death_extra_s, std::nullopt);
  with.mutable_summary()->set_state(FAILED);
  TakeDeath(without, with, DeathResult{.at_s = 1}, &figures);
  EXPECT_EQ(figures.death_extra_s, std::nullopt);
  EXPECT_EQ(figures.death_examples_again, std::nullopt);
}

GridResult Tried(double rate, std::optional<double> accuracy, std::optional<double> loss,
                 const std::string& state = "SUCCEEDED") {
  GridResult result{.rate = rate, .state = state};
  result.figures.final_test_accuracy = accuracy;
  result.figures.training_loss = loss;
  return result;
}

TEST(GridTest, TheBestRateIsByAccuracyElseByLoss) {
  const std::vector<GridResult> accurate = {Tried(0.1, 0.7, 0.1), Tried(0.2, 0.8, 0.9),
                                            Tried(0.3, 0.8, 0.1), Tried(0.4, 0.99, 0.1, "FAILED"),
                                            Tried(0.5, std::nullopt, 0.01)};
  EXPECT_EQ(BestRate(accurate), 0.2);
  EXPECT_EQ(BestRate(std::vector<GridResult>{Tried(0.1, std::nullopt, 0.7),
                                             Tried(0.2, std::nullopt, 0.6)}),
            0.2);
  EXPECT_EQ(BestRate(std::vector<GridResult>{Tried(0.1, 0.9, 0.1, "FAILED")}), std::nullopt);
  EXPECT_EQ(BestRate({}), std::nullopt);
}

}  // namespace
}  // namespace monsoon
