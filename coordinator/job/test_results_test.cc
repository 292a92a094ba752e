#include "coordinator/job/test_results.h"

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
  TestResults evaluations(/*has_test=*/true, /*every=*/1, /*ends_job=*/true, state.Begun());
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
  TestResults evaluations(true, 1, true, state.Begun());
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
  TestResults evaluations(true, 1, true, state.Begun());
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
  TestResults evaluations(true, 1, true, state.Begun());
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
    TestResults evaluations(true, 0, ends_job, state.Begun());
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
  TestResults evaluations(/*has_test=*/false, 1, true, state.Begun());
  evaluations.NoteProgress(5);
  evaluations.RequestFinal();
  EXPECT_FALSE(evaluations.Assign(0, {0}).has_value());
  EXPECT_TRUE(evaluations.finished());
}

}  // namespace
}  // namespace monsoon
