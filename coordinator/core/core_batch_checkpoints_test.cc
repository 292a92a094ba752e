// Checkpoints of batch jobs: their parameters change as one, when they are published.
#include "coordinator/core/core_checkpoints_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreCheckpointsTest;
using ::testing::AllOf;
using ::testing::HasSubstr;

class BatchCheckpointsTest : public CoreCheckpointsTest {
 protected:
  void StartBatch(bool chain = false) {
    JobPlan plan = h_.Plan(1);
    if (!chain) {
      plan.job.clear_downpour();
      plan.job.clear_stop();
    }
    plan.job.mutable_sandblaster()->set_chunk_examples(10);
    plan.job.mutable_sandblaster()->set_chunks_per_contribution(1);
    Start(plan);
  }
  void Iterate(uint32_t number) {
    JobDescription::Iteration iteration;
    iteration.set_iteration(number);
    ASSERT_OK(h_.core().NoteIteration("j-1", iteration, BatchFigures(), h_.now()));
  }
  void End() {
    h_.core().EndBatch("j-1", BatchEnd{"converged", ""}, h_.now());
    for (int i = 0; i < 5; ++i) {
      const absl::StatusOr<NextWorkReply> reply = h_.Ask(0);
      ASSERT_OK(reply);
      if (reply->has_finish()) {
        break;
      }
    }
    Pass(1);
  }
};

TEST_F(BatchCheckpointsTest, OnlyAtTheEnd) {
  h_.KeepState();
  StartBatch();
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  Iterate(1);
  Push();
  Pass(30);
  Iterate(2);
  Pass(30);
  EXPECT_EQ(h_.shard(0).orders, 0);
  End();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.shard(0).orders, 1);
  EXPECT_EQ(Context().iterations(), 2u);
  EXPECT_TRUE(Context().final());
  EXPECT_FALSE(Context().has_downpour());
}

TEST_F(BatchCheckpointsTest, WhatIsAskedForIsCutBetweenTwoIterations) {
  h_.KeepState();
  StartBatch();
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  Iterate(1);
  ASSERT_OK(Ask());
  Pass(5);
  EXPECT_EQ(h_.shard(0).orders, 0) << "the minimiser may be publishing";
  EXPECT_FALSE(h_.core().BatchWaits("j-1"));
  h_.shard(1).disk_error = "No space left on device";
  Iterate(2);
  EXPECT_TRUE(h_.core().BatchWaits("j-1"));
  Pass(2);
  EXPECT_EQ(h_.shard(0).orders, 1);
  EXPECT_EQ(Context().iterations(), 2u);
  EXPECT_EQ(h_.Reason(),
            "waits for a checkpoint: ps/1: No space left on device; free the disk, or cancel the "
            "job");
  h_.shard(1).disk_error.clear();
  Pass(2);
  EXPECT_FALSE(h_.core().BatchWaits("j-1"));
  EXPECT_EQ(h_.Reason(), "");
  EXPECT_EQ(Durability().generation(), 1u);
}

TEST_F(BatchCheckpointsTest, BeforeTheMinimiserBeginsItIsCutAtOnce) {
  h_.KeepState();
  StartBatch();
  h_.shard(0).disk_is_slow = true;
  ASSERT_OK(Ask());
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  Pass(1);
  h_.Write(&h_.shard(0));
  Pass(1);
  EXPECT_EQ(Durability().generation(), 1u);
  EXPECT_TRUE(h_.core().TakeBatch().has_value());
}

TEST_F(BatchCheckpointsTest, AChainBeginsItsSecondPartWithNoneUnderWay) {
  h_.KeepState();
  StartBatch(/*chain=*/true);
  h_.shard(0).disk_is_slow = true;
  ASSERT_OK(Ask());
  h_.Settle();
  for (int i = 0; i < 20 && !h_.core().BatchRuns("j-1"); ++i) {
    ASSERT_OK(h_.Ask(0));
  }
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  EXPECT_EQ(h_.Reason(), "waits for a checkpoint");
  h_.Write(&h_.shard(0));
  h_.Poll();
  EXPECT_TRUE(h_.core().TakeBatch().has_value());
  Iterate(1);
  h_.shard(0).disk_is_slow = false;
  End();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(Context().downpour().blocks_done(), 4u);
  EXPECT_EQ(Context().iterations(), 1u);
}

TEST_F(BatchCheckpointsTest, ACancelledBatchIsWrittenOnceItsMinimiserHasEnded) {
  h_.KeepState();
  StartBatch();
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  Iterate(1);
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  Pass(2);
  EXPECT_EQ(h_.shard(0).orders, 0);
  EXPECT_NE(h_.State(), CANCELLED);
  h_.core().EndBatch("j-1", absl::CancelledError("stopped"), h_.now());
  Pass(2);
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_EQ(Durability().generation(), 1u);
  EXPECT_EQ(Context().iterations(), 1u);
}

// ---- the coordinator dies -----------------------------------------------------

TEST_F(BatchCheckpointsTest, ABatchEndsWithTheCoordinatorThatDroveIt) {
  h_.KeepState();
  StartBatch();
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  ASSERT_OK(Ask());
  Iterate(1);
  Pass(1);
  h_.RestartCoordinator(h_.updates_.size());
  h_.Poll();
  h_.Settle();
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  h_.Beat(0);
  Pass(1);
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("the coordinator died during the batch"),
                                 HasSubstr("submit --resume=j-1` goes on from generation 1")));
}

TEST_F(BatchCheckpointsTest, OneThatIsTrainedGoesOnToItsEnd) {
  h_.KeepState();
  StartBatch();
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  Iterate(1);
  h_.core().EndBatch("j-1", BatchEnd{"converged", ""}, h_.now());
  h_.RestartCoordinator();
  h_.Poll();
  h_.Settle();
  h_.Beat(0);
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK_AND_ASSIGN(const NextWorkReply reply, h_.Ask(0));
    if (reply.has_finish()) {
      break;
    }
  }
  Pass(1);
  EXPECT_EQ(h_.State(), SUCCEEDED) << h_.Reason();
  EXPECT_EQ(h_.Describe().sandblaster().end_reason(), "converged");
}

}  // namespace
}  // namespace monsoon
