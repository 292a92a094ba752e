#include "coordinator/job/test_results.h"

#include <limits>

#include "common/testing/status_matchers.h"
#include "coordinator/state/replayed_state.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

ReportEvaluationRequest Result(uint64_t id, uint64_t examples, uint64_t correct, double loss_sum) {
  ReportEvaluationRequest request;
  request.set_evaluation(id);
  request.set_examples(examples);
  request.set_correct(correct);
  request.set_loss_sum(loss_sum);
  return request;
}

TEST(TestResultsTest, RecordsWhatWasTrueWhenItWasGivenOut) {
  testing::ReplayedState state;
  TestResults evaluations(/*has_test=*/true, /*every=*/1, /*ends_job=*/true, NO_TEST_METRIC,
                          state.Begun());
  evaluations.NoteProgress(1);
  ASSERT_EQ(evaluations.Assign(0, {0}), 1u);
  evaluations.GivenOut({.step = 10, .epoch = 1.25, .at = absl::Seconds(3)});
  ASSERT_EQ(evaluations.Assign(0, {0}), 1u);  // asked again, some steps later
  evaluations.GivenOut({.step = 20, .epoch = 1.5, .at = absl::Seconds(4)});
  ASSERT_OK_AND_ASSIGN(const TestResult* const record,
                       evaluations.Report(0, Result(1, 200, 150, 100)));
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->step, 10u);
  EXPECT_EQ(record->epoch, 1.25);
  EXPECT_EQ(record->at, absl::Seconds(3));
  EXPECT_EQ(record->loss, 0.5);
  EXPECT_EQ(record->accuracy, 0.75);
  EXPECT_FALSE(record->final);
  EXPECT_EQ(evaluations.records().size(), 1u);
}

TEST(TestResultsTest, ARepeatedResultIsRecordedOnce) {
  testing::ReplayedState state;
  TestResults evaluations(true, 1, true, NO_TEST_METRIC, state.Begun());
  evaluations.NoteProgress(1);
  ASSERT_EQ(evaluations.Assign(0, {0}), 1u);
  evaluations.GivenOut({});
  ASSERT_OK(evaluations.Report(0, Result(1, 2, 1, 1)));
  ASSERT_OK_AND_ASSIGN(const TestResult* const again, evaluations.Report(0, Result(1, 2, 1, 1)));
  EXPECT_EQ(again, nullptr);
  EXPECT_EQ(evaluations.records().size(), 1u);
}

TEST(TestResultsTest, ALostEvaluatorsWorkIsDoneByAnother) {
  testing::ReplayedState state;
  TestResults evaluations(true, 1, true, NO_TEST_METRIC, state.Begun());
  evaluations.NoteProgress(1);
  ASSERT_EQ(evaluations.Assign(0, {0, 1}), 1u);
  evaluations.GivenOut({.step = 10});
  evaluations.Remove(0);
  const std::optional<uint64_t> id = evaluations.Assign(1, {1});
  ASSERT_TRUE(id.has_value());
  evaluations.GivenOut({.step = 30});
  EXPECT_EQ(evaluations.assigned_worker(), 1u);
  EXPECT_THAT(evaluations.Report(0, Result(*id, 2, 1, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("worker/0's any more")));
  ASSERT_OK_AND_ASSIGN(const TestResult* const record, evaluations.Report(1, Result(*id, 2, 1, 1)));
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->step, 30u);
}

TEST(TestResultsTest, RefusesCountsThatCannotBe) {
  testing::ReplayedState state;
  TestResults evaluations(true, 1, true, NO_TEST_METRIC, state.Begun());
  evaluations.NoteProgress(1);
  ASSERT_EQ(evaluations.Assign(0, {0}), 1u);
  evaluations.GivenOut({});
  for (const auto& result : {Result(1, 0, 0, 0), Result(1, 10, 11, 1)}) {
    EXPECT_THAT(evaluations.Report(0, result),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("correct of")));
  }
  ASSERT_OK(evaluations.Report(0, Result(1, 10, 10, 1)));
  EXPECT_EQ(evaluations.records().size(), 1u);
}

TEST(TestResultsTest, TheLastOneIsFinalOnlyIfItEndsTheJob) {
  for (const bool ends_job : {true, false}) {
    testing::ReplayedState state;
    TestResults evaluations(true, 0, ends_job, NO_TEST_METRIC, state.Begun());
    evaluations.NoteProgress(5);
    EXPECT_FALSE(evaluations.Assign(0, {0}).has_value());
    evaluations.RequestFinal();
    EXPECT_FALSE(evaluations.finished());
    const std::optional<uint64_t> id = evaluations.Assign(0, {0});
    ASSERT_TRUE(id.has_value());
    evaluations.GivenOut({});
    ASSERT_OK_AND_ASSIGN(const TestResult* const record,
                         evaluations.Report(0, Result(*id, 2, 1, 1)));
    EXPECT_EQ(record->final, ends_job);
    EXPECT_TRUE(evaluations.finished());
  }
}

TEST(TestResultsTest, WithoutATestSetThereIsNothingToDo) {
  testing::ReplayedState state;
  TestResults evaluations(/*has_test=*/false, 1, true, NO_TEST_METRIC, state.Begun());
  evaluations.NoteProgress(5);
  evaluations.RequestFinal();
  EXPECT_FALSE(evaluations.Assign(0, {0}).has_value());
  EXPECT_TRUE(evaluations.finished());
}

// ---- over generations -----------------------------------------------------------

class TestedGenerationsTest : public ::testing::Test {
 protected:
  TestResults Make(TestMetric best, double every = 1) {
    return TestResults(/*has_test=*/true, every, /*ends_job=*/true, best, state_.Begun());
  }
  // On the disk of all shards.
  void Hold(uint64_t generation, TestResults* results) {
    const JobWriter job = state_.Job();
    job.Make([&](StateUpdate* update) {
      update->mutable_checkpoint_ordered()->set_generation(generation);
    });
    job.Make([&](StateUpdate* update) {
      update->mutable_checkpoint_held()->set_generation(generation);
    });
    results->NoteHeld(generation);
  }
  // Tests `generation` at step 10 * generation.
  void Test(uint64_t generation, uint64_t correct, double loss_sum, TestResults* results) {
    ASSERT_TRUE(results->WantsGeneration());
    results->UseGeneration(generation, {.step = 10 * generation, .epoch = 1});
    Hold(generation, results);
    const std::optional<uint64_t> id = results->Assign(0, {0});
    ASSERT_TRUE(id.has_value());
    results->GivenOut({.step = 9999});
    ASSERT_OK(results->Report(0, Result(*id, 100, correct, loss_sum)));
  }
  uint64_t Best() { return state_.Job().job().best().generation(); }

  testing::ReplayedState state_;
};

TEST_F(TestedGenerationsTest, ARunWaitsForItsGenerationAndIsOfThat) {
  TestResults results = Make(TEST_ACCURACY);
  EXPECT_FALSE(results.WantsGeneration());
  results.NoteProgress(1);
  EXPECT_TRUE(results.WantsGeneration());
  EXPECT_EQ(results.Assign(0, {0}), std::nullopt);
  results.UseGeneration(3, {.step = 30, .epoch = 1});
  EXPECT_FALSE(results.WantsGeneration());
  results.NoteHeld(2);
  EXPECT_EQ(results.Assign(0, {0}), std::nullopt) << "it is not on the disks yet";
  Hold(3, &results);
  ASSERT_EQ(results.Assign(0, {0}), 1u);
  EXPECT_STREQ(results.vector(), kTestedVector);
  results.GivenOut({.step = 50});
  ASSERT_OK_AND_ASSIGN(const TestResult* const record, results.Report(0, Result(1, 100, 90, 20)));
  EXPECT_EQ(record->generation, 3u);
  EXPECT_EQ(record->step, 30u) << "when it was cut";
  EXPECT_EQ(Best(), 3u);
  EXPECT_STREQ(results.vector(), "");
}

TEST_F(TestedGenerationsTest, OnlyABetterOneTakesThePlace) {
  TestResults results = Make(TEST_ACCURACY);
  results.NoteProgress(1);
  Test(1, 80, 50, &results);
  results.NoteProgress(2);
  Test(2, 90, 60, &results);
  results.NoteProgress(3);
  Test(3, 90, 10, &results);
  results.NoteProgress(4);
  Test(4, 85, 5, &results);
  EXPECT_EQ(Best(), 2u);
  EXPECT_EQ(state_.Job().job().best().accuracy(), 0.9);
  EXPECT_EQ(state_.Job().job().best().loss(), 0.6);
}

TEST_F(TestedGenerationsTest, OrByLoss) {
  TestResults results = Make(TEST_LOSS);
  results.NoteProgress(1);
  Test(1, 90, 50, &results);
  results.NoteProgress(2);
  Test(2, 80, 40, &results);
  results.NoteProgress(3);
  Test(3, 95, 45, &results);
  EXPECT_EQ(Best(), 2u);
}

TEST_F(TestedGenerationsTest, AFigureThatIsNoNumberIsNotTheBest) {
  TestResults results = Make(TEST_LOSS);
  results.NoteProgress(1);
  Test(1, 90, std::numeric_limits<double>::quiet_NaN(), &results);
  EXPECT_FALSE(state_.Job().job().has_best());
  results.NoteProgress(2);
  Test(2, 80, 40, &results);
  EXPECT_EQ(Best(), 2u);
  results.NoteProgress(3);
  Test(3, 80, std::numeric_limits<double>::quiet_NaN(), &results);
  EXPECT_EQ(Best(), 2u);
}

TEST_F(TestedGenerationsTest, WhereItIsGoneAnotherIsWanted) {
  TestResults results = Make(TEST_ACCURACY);
  results.NoteProgress(1);
  results.UseGeneration(1, {});
  Hold(1, &results);
  ASSERT_EQ(results.Assign(0, {0}), 1u);
  results.GivenOut({});
  ReportEvaluationRequest gone;
  gone.set_evaluation(1);
  gone.set_vector_is_gone(true);
  ASSERT_OK_AND_ASSIGN(const TestResult* const none, results.Report(0, gone));
  EXPECT_EQ(none, nullptr);
  EXPECT_TRUE(results.records().empty());
  EXPECT_TRUE(results.WantsGeneration());
  ASSERT_OK(results.Report(0, gone));  // repeated
  Test(2, 90, 10, &results);
  EXPECT_EQ(Best(), 2u);
}

TEST_F(TestedGenerationsTest, OneThatWasGivenUpIsNotTested) {
  TestResults results = Make(TEST_ACCURACY);
  results.NoteProgress(1);
  results.UseGeneration(1, {});
  Hold(2, &results);
  EXPECT_EQ(results.Assign(0, {0}), std::nullopt);
  EXPECT_TRUE(results.WantsGeneration());
}

TEST_F(TestedGenerationsTest, ALostReplicasRunIsOfTheSameGeneration) {
  TestResults results = Make(TEST_ACCURACY);
  results.NoteProgress(1);
  results.UseGeneration(1, {.step = 10});
  Hold(1, &results);
  ASSERT_EQ(results.Assign(0, {0, 1}), 1u);
  results.GivenOut({.step = 20});
  results.Remove(0);
  ASSERT_EQ(results.Assign(1, {1}), 2u);
  results.GivenOut({.step = 30});
  ASSERT_OK_AND_ASSIGN(const TestResult* const record, results.Report(1, Result(2, 2, 1, 1)));
  EXPECT_EQ(record->generation, 1u);
  EXPECT_EQ(record->step, 10u);
}

TEST_F(TestedGenerationsTest, TheLastRunIsOfOneThatHasAll) {
  TestResults results = Make(TEST_ACCURACY);
  results.NoteProgress(1);
  results.UseGeneration(1, {});
  Hold(1, &results);  // nobody has begun with it
  results.RequestFinal();
  EXPECT_EQ(results.Assign(0, {0}), std::nullopt);
  Test(2, 90, 10, &results);
  EXPECT_TRUE(results.records().back().final);
  EXPECT_TRUE(results.finished());
}

TEST_F(TestedGenerationsTest, AJobInMemoryOnlyTestsItsParameters) {
  TestResults results = Make(TEST_ACCURACY);
  results.NoteProgress(1);
  results.UseGeneration(1, {});
  state_.Job().Make(
      [](StateUpdate* update) { update->mutable_storage_given_up()->set_reason("disk full"); });
  ASSERT_EQ(results.Assign(0, {0}), 1u);
  EXPECT_STREQ(results.vector(), "");
  results.GivenOut({});
  ASSERT_OK_AND_ASSIGN(const TestResult* const record, results.Report(0, Result(1, 2, 1, 1)));
  EXPECT_EQ(record->generation, 0u);
  EXPECT_EQ(Best(), 0u);
}

}  // namespace
}  // namespace monsoon
