#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/core_harness.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreHarness;
using ::monsoon::testing::StatusIs;
using ::testing::Contains;
using ::testing::HasSubstr;

const BatchKey kBatch{"j-1"};

// 70 samples, chunks of 10: 7 contributions.
class CoordinatorBatchTest : public ::testing::Test {
 protected:
  JobPlan Plan(bool chain = false) {
    JobPlan plan = h_.Plan(1);
    if (!chain) {
      plan.job.clear_downpour();
      plan.job.clear_stop();
    }
    plan.job.mutable_sandblaster()->set_chunk_examples(10);
    plan.job.mutable_sandblaster()->set_chunks_per_contribution(1);
    return plan;
  }
  void Start(JobPlan plan) {
    h_.Submit(std::move(plan));
    h_.Poll();
    h_.Settle();
    h_.Join(0);
  }
  absl::StatusOr<NextWorkReply> Next(const std::vector<ContributionResult>& done) {
    NextWorkRequest request;
    *request.mutable_session() = h_.session_[0];
    request.set_request(++h_.request_[0]);
    for (const ContributionResult& result : done) {
      *request.add_contribution() = result;
    }
    return h_.core().NextWork(request, h_.now());
  }
  // Computes until the evaluation is finished; each sample's loss is 0.25.
  BatchResult Compute() {
    std::vector<ContributionResult> done;
    for (int i = 0; i < 50; ++i) {
      const absl::StatusOr<NextWorkReply> reply = Next(done);
      EXPECT_OK(reply);
      done.clear();
      const auto finished = h_.core().batches().FinishedEvaluation(kBatch);
      EXPECT_OK(finished);
      if (finished->has_value()) {
        return **finished;
      }
      for (const auto& contribution : reply->contribute().contribution()) {
        ContributionResult& result = done.emplace_back();
        result.set_evaluation(reply->contribute().evaluation());
        result.set_contribution(contribution.contribution());
        result.set_examples(contribution.examples());
        result.set_loss_sum(0.25 * contribution.examples());
        result.set_finite(true);
      }
    }
    ADD_FAILURE() << "the evaluation does not end";
    return {};
  }
  void Leave() {
    for (int i = 0; i < 5; ++i) {
      const absl::StatusOr<NextWorkReply> reply = Next({});
      ASSERT_OK(reply);
      if (reply->has_finish()) {
        break;
      }
    }
    h_.Settle();
    h_.Poll();
  }

  CoreHarness h_{2, 3};
};

TEST_F(CoordinatorBatchTest, FromTheFirstEvaluationToTheEnd) {
  Start(Plan());
  EXPECT_EQ(h_.State(), RUNNING);
  const std::optional<BatchTask> task = h_.core().TakeBatch();
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->batch.job, "j-1");
  EXPECT_EQ(task->batch.attempt, 0u);
  EXPECT_EQ(task->contributions, 7u);
  EXPECT_THAT(task->shard_epochs, ::testing::ElementsAre(1000, 1000));
  EXPECT_FALSE(h_.core().TakeBatch().has_value());

  ASSERT_OK(h_.core().batches().StartEvaluation(kBatch, 1, "w1", true, h_.now()));
  EXPECT_EQ(Compute().examples, 10u);
  ASSERT_OK(h_.core().batches().StartEvaluation(kBatch, 2, "w1", false, h_.now()));
  const BatchResult batch = Compute();
  EXPECT_EQ(batch.examples, 70u);
  EXPECT_EQ(batch.loss_sum, 0.25 * 70);
  EXPECT_TRUE(batch.finite);

  JobDescription::Iteration iteration;
  iteration.set_iteration(1);
  iteration.set_f(0.25);
  BatchFigures figures;
  figures.set_evaluations(1);
  ASSERT_OK(
      h_.core().batches().NoteIteration(kBatch, iteration, figures, /*state=*/nullptr, h_.now()));
  const JobDescription description = h_.Describe();
  EXPECT_EQ(description.mode(), "sandblaster");
  EXPECT_EQ(description.sandblaster().iteration(), 1u);
  EXPECT_EQ(description.sandblaster().f(), 0.25);

  h_.core().EndBatch(kBatch, BatchEnd{"converged", "F 1"}, h_.now());
  EXPECT_EQ(h_.State(), FINISHING);
  EXPECT_FALSE(h_.core().batches().Runs(kBatch));
  Leave();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.Describe().sandblaster().end_reason(), "converged");
}

TEST_F(CoordinatorBatchTest, AChainGoesOnWithTheSameSessions) {
  Start(Plan(/*chain=*/true));
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  EXPECT_EQ(h_.Describe().mode(), "downpour+sandblaster");
  for (int i = 0; i < 20 && !h_.core().batches().Runs(kBatch); ++i) {
    const absl::StatusOr<NextWorkReply> reply = h_.Ask(0);
    ASSERT_OK(reply);
    ASSERT_FALSE(reply->has_finish());
  }
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.Describe().summary().percent(), 50);
  EXPECT_EQ(h_.shard(0).open.size(), 1u);
  EXPECT_THAT(h_.Events(), Contains("sandblaster"));
  ASSERT_OK(h_.core().batches().StartEvaluation(kBatch, 1, "w1", false, h_.now()));
  EXPECT_EQ(Compute().examples, 70u);
  h_.core().EndBatch(kBatch, BatchEnd{"max_iterations", ""}, h_.now());
  Leave();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.Describe().data().blocks_done(), 4u);
}

// Of the first part, that has been under way since: it is no request of the second.
TEST_F(CoordinatorBatchTest, ALateRequestOfTheFirstPartGetsNoWorkOfTheSecond) {
  Start(Plan(/*chain=*/true));
  for (int i = 0; i < 20 && !h_.core().batches().Runs(kBatch); ++i) {
    ASSERT_OK(h_.Ask(0));
  }
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  ASSERT_OK(h_.core().batches().StartEvaluation(kBatch, 1, "w1", false, h_.now()));
  ASSERT_GT(h_.request_[0], 2u);
  NextWorkRequest late;
  *late.mutable_session() = h_.session_[0];
  late.set_request(h_.request_[0] - 1);
  EXPECT_THAT(h_.core().NextWork(late, h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("came after")));
  EXPECT_EQ(Compute().examples, 70u);
}

TEST_F(CoordinatorBatchTest, CancelStopsTheMinimiser) {
  Start(Plan());
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  ASSERT_OK(h_.core().batches().StartEvaluation(kBatch, 1, "w1", false, h_.now()));
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  EXPECT_FALSE(h_.core().batches().Runs(kBatch));
  EXPECT_THAT(h_.core().batches().FinishedEvaluation(kBatch).status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("j-1")));
  EXPECT_THAT(h_.core().batches().StartEvaluation(kBatch, 2, "w", false, h_.now()),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("j-1")));
  h_.core().EndBatch(kBatch, absl::CancelledError("stopped"), h_.now());
  h_.Settle();
  EXPECT_EQ(h_.State(), CANCELLED);
}

TEST_F(CoordinatorBatchTest, AnErrorOfTheMinimiserFailsTheJob) {
  Start(Plan());
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  h_.core().EndBatch(kBatch, absl::AbortedError("ps/1: restarted"), h_.now());
  h_.Settle();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("sandblaster: ps/1: restarted"));
}

}  // namespace
}  // namespace monsoon
