#include "coordinator/job/batch_order.h"

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

// 10 batches an epoch, the last one with 8 samples.
BatchOrder TenBatches() { return BatchOrder(98, 10); }

TEST(BatchOrderTest, TheLastBatchOfAnEpochHasWhatIsLeft) {
  const BatchOrder order = TenBatches();
  EXPECT_EQ(order.per_epoch(), 10u);
  EXPECT_EQ(order.ExamplesOf(9), 90u);
  EXPECT_EQ(order.ExamplesOf(10), 98u);
  EXPECT_EQ(order.ExamplesOf(11), 108u);
  EXPECT_DOUBLE_EQ(order.EpochOf(10), 1.0);
}

TEST(BatchOrderTest, AMarkIsTheFirstBatchEdgeThatIsNoEarlier) {
  const BatchOrder order = TenBatches();
  EXPECT_EQ(order.BatchesOf(1), 10u);
  EXPECT_EQ(order.BatchesOf(0.5), 5u);   // 49 samples
  EXPECT_EQ(order.BatchesOf(0.51), 5u);  // 50
  EXPECT_EQ(order.BatchesOf(0.52), 6u);
  EXPECT_EQ(order.BatchesOf(3 * 0.1), 3u);
  EXPECT_EQ(order.BatchesOf(2.999999999999), 30u);
}

TEST(BatchOrderTest, TheStopThatComesFirstEndsIt) {
  const BatchOrder order = TenBatches();
  Stop stop;
  EXPECT_EQ(order.EndOf(stop), std::nullopt);
  stop.set_epochs(2);
  EXPECT_EQ(order.EndOf(stop), 20u);
  stop.set_steps(7);
  EXPECT_EQ(order.EndOf(stop), 7u);
}

TEST(BatchOrderTest, AGenerationSaysInBlocksWhatIsWholeAndGivesThePlaceBack) {
  const BatchOrder order = TenBatches();
  SynchronousPosition at;
  at.set_updates(8);
  at.set_batches(25);
  const DownpourProgress progress = order.ProgressAt(at, 20);
  EXPECT_EQ(progress.epochs_done(), 2u);
  ASSERT_EQ(progress.epoch_size(), 1);
  EXPECT_EQ(progress.epoch(0).done(0).end(), 2u);  // of five batches the first four
  EXPECT_EQ(progress.examples_done(), 2 * 98u + 40);
  EXPECT_EQ(progress.blocks_done(), 2 * 5u + 2);

  CheckpointContext context;
  context.mutable_job()->set_batch_size(10);
  context.mutable_job()->set_block_examples(20);
  *context.mutable_downpour() = progress;
  *context.mutable_synchronous() = at;
  std::string note;
  ASSERT_OK_AND_ASSIGN(SynchronousPosition resumed, order.Resume(context, &note));
  EXPECT_EQ(resumed.batches(), 25u);
  EXPECT_EQ(resumed.updates(), 8u);
  EXPECT_EQ(note, "");

  // Of Downpour SGD blocks count, as far as there is no gap.
  context.clear_synchronous();
  ASSERT_OK_AND_ASSIGN(resumed, order.Resume(context, &note));
  EXPECT_EQ(resumed.batches(), 24u);
  EXPECT_EQ(note, "");
  EpochCursor::Run* const behind = context.mutable_downpour()->mutable_epoch(0)->add_done();
  behind->set_first(3);
  behind->set_end(4);
  ASSERT_OK_AND_ASSIGN(resumed, order.Resume(context, &note));
  EXPECT_EQ(resumed.batches(), 24u);
  EXPECT_THAT(note, HasSubstr("after batch 4 of epoch 2 is done again"));
}

TEST(BatchOrderTest, WhatNoJobCanHaveComeToIsRefused) {
  CheckpointContext context;
  context.mutable_job()->set_batch_size(10);
  context.mutable_synchronous()->set_batches(UINT64_MAX);
  std::string note;
  EXPECT_EQ(TenBatches().Resume(context, &note).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace monsoon
