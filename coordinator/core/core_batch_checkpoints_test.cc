// Checkpoints of batch jobs: their parameters change as one, when they are published.
#include "coordinator/core/core_batch_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreBatchTest;
using ::testing::ElementsAre;

class BatchCheckpointsTest : public CoreBatchTest {};

TEST_F(BatchCheckpointsTest, BeforeItsFirstIterationEverySoOftenAndAtTheEnd) {
  StartBatch();
  EXPECT_EQ(h_.shard(0).orders, 1);
  EXPECT_EQ(Context().reason(), "the batch begins");
  EXPECT_EQ(Durability().generation(), 1u);
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  Iterate(1);
  Pass(8);
  Iterate(2);
  EXPECT_EQ(h_.shard(0).orders, 1);
  Pass(3);
  EXPECT_EQ(h_.shard(0).orders, 1) << "the minimiser may be publishing";
  Iterate(3);
  Pass(1);
  EXPECT_EQ(h_.shard(0).orders, 2);
  EXPECT_EQ(Context().reason(), "every 10 s");
  EXPECT_EQ(Context().iterations(), 3u);
  EXPECT_THAT(Context().vector(), ElementsAre("g3", "d3", "s3", "y3"));
  EXPECT_EQ(Durability().generation(), 2u);
  EndBatch();
  EXPECT_EQ(h_.State(), RUNNING) << "its last point is not held yet";
  Pass(1);
  EXPECT_EQ(h_.State(), FINISHING);
  EXPECT_EQ(Context().reason(), "the batch has ended");
  EXPECT_TRUE(Context().vector().empty());
  Finish();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.shard(0).orders, 4);
  EXPECT_EQ(Context().iterations(), 3u);
  EXPECT_TRUE(Context().final());
  EXPECT_FALSE(Context().has_downpour());
}

TEST_F(BatchCheckpointsTest, WhatIsAskedForIsCutBetweenTwoIterations) {
  StartBatch();
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  Iterate(1);
  ASSERT_OK(Ask());
  Pass(5);
  EXPECT_EQ(h_.shard(0).orders, 1) << "the minimiser may be publishing";
  EXPECT_FALSE(h_.core().batches().Waits(kBatch));
  h_.shard(1).disk_error = "No space left on device";
  Iterate(2);
  EXPECT_TRUE(h_.core().batches().Waits(kBatch));
  Pass(2);
  EXPECT_EQ(h_.shard(0).orders, 2);
  EXPECT_EQ(Context().iterations(), 2u);
  EXPECT_EQ(h_.Reason(),
            "waits for a checkpoint: ps/1: No space left on device; free the disk, or cancel the "
            "job");
  h_.shard(1).disk_error.clear();
  Pass(2);
  EXPECT_FALSE(h_.core().batches().Waits(kBatch));
  EXPECT_EQ(h_.Reason(), "");
  EXPECT_EQ(Durability().generation(), 2u);
}

TEST_F(BatchCheckpointsTest, ItDoesNotBeginBeforeItsParametersAreHeld) {
  h_.shard(0).disk_is_slow = true;
  StartBatch();
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  EXPECT_EQ(h_.Reason(), "waits for a checkpoint");
  h_.shard(0).Write();
  Pass(1);
  EXPECT_EQ(Durability().generation(), 1u);
  EXPECT_TRUE(h_.core().TakeBatch().has_value());
}

TEST_F(BatchCheckpointsTest, AChainBeginsItsSecondPartWithItsParametersHeld) {
  Start(BatchPlan(/*chain=*/true));
  h_.shard(0).disk_is_slow = true;
  TrainFirstPart();
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  EXPECT_EQ(h_.Reason(), "waits for a checkpoint");
  EXPECT_EQ(Context().reason(), "Downpour SGD is over");
  h_.shard(0).Write();
  Pass(1);
  EXPECT_FALSE(h_.core().TakeBatch().has_value()) << "that one was of the first part";
  EXPECT_EQ(Context().reason(), "the batch begins");
  h_.shard(0).disk_is_slow = false;
  h_.shard(0).Write();
  Pass(2);
  EXPECT_TRUE(h_.core().TakeBatch().has_value());
  Iterate(1);
  EndBatch();
  Pass(1);
  Finish();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(Context().downpour().blocks_done(), 4u);
  EXPECT_EQ(Context().iterations(), 1u);
}

// What a shard had acknowledged and lost, its worker sends again: the batch begins after that.
TEST_F(BatchCheckpointsTest, AChainsSecondPartWaitsForWhatComesAgain) {
  Start(BatchPlan(/*chain=*/true));
  h_.ready_[0] = {h_.shard(0).epoch, h_.shard(1).epoch};
  h_.Restart(1);
  Pass(1);
  TrainFirstPart();
  Pass(2);
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  EXPECT_EQ(h_.Reason(),
            "waits for workers to send restored shards again what these had acknowledged");
  h_.silent_shard_[0] = 1;
  Pass(1);
  EXPECT_EQ(h_.Reason(),
            "waits for workers to send restored shards again what these had acknowledged; worker/0 "
            "does not reach ps/1 at unix:ps1");
  h_.silent_shard_.clear();
  h_.ready_.erase(0);
  h_.shard(0).disk_is_slow = true;
  ASSERT_OK(h_.Ask(0));
  Pass(1);
  EXPECT_EQ(Context().reason(), "Downpour SGD is over");

  // Once more, while that is written.
  h_.ready_[0] = {h_.shard(0).epoch, h_.shard(1).epoch};
  h_.Restart(1);
  Pass(1);
  h_.shard(0).disk_is_slow = false;
  h_.shard(0).Write();
  ASSERT_OK(h_.Ask(0));
  Pass(2);
  EXPECT_FALSE(h_.core().TakeBatch().has_value()) << "that one lacks what comes again";
  h_.ready_.erase(0);
  ASSERT_OK(h_.Ask(0));
  Pass(3);
  EXPECT_TRUE(h_.core().TakeBatch().has_value()) << h_.Reason();
}

TEST_F(BatchCheckpointsTest, ACancelledBatchIsWrittenOnceItsMinimiserHasEnded) {
  StartBatch();
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  Iterate(1);
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  Pass(2);
  EXPECT_EQ(h_.shard(0).orders, 1);
  EXPECT_NE(h_.State(), CANCELLED);
  h_.core().EndBatch(kBatch, absl::CancelledError("stopped"), h_.now());
  Pass(2);
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_EQ(Durability().generation(), 2u);
  EXPECT_EQ(Context().iterations(), 1u);
  EXPECT_TRUE(Context().vector().empty());
}

}  // namespace
}  // namespace monsoon
