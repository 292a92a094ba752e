#include "coordinator/downpour/data_plan.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

// 4 blocks of 20 samples an epoch, the last one with 10; batches of 5: 14 steps.
DataPlanOptions FourBlocks() {
  DataPlanOptions options;
  options.examples = 70;
  options.block_examples = 20;
  options.batch_size = 5;
  return options;
}

void AddRun(uint32_t epoch, uint32_t first, uint32_t end, DownpourProgress* progress) {
  if (progress->epoch().empty() || progress->epoch().rbegin()->epoch() != epoch) {
    progress->add_epoch()->set_epoch(epoch);
  }
  EpochCursor* const cursor = progress->mutable_epoch(progress->epoch_size() - 1);
  cursor->set_blocks(4);
  EpochCursor::Run* const run = cursor->add_done();
  run->set_first(first);
  run->set_end(end);
}

TEST(DataPlanTest, EpochsEndAnywhere) {
  DataPlanOptions options = FourBlocks();
  EXPECT_EQ(DataPlan::Make(options).blocks, DataPlan::kNoLimit);
  options.stop.set_epochs(2);
  EXPECT_EQ(DataPlan::Make(options).blocks, 8u);
  EXPECT_EQ(DataPlan::Make(options).last_block_examples, 0u);
  EXPECT_EQ(DataPlan::Make(options).examples, 140u);
  options.stop.set_epochs(0.5);
  EXPECT_EQ(DataPlan::Make(options).blocks, 2u);
  EXPECT_EQ(DataPlan::Make(options).last_block_examples, 15u);
  EXPECT_EQ(DataPlan::Make(options).examples, 35u);
  options.stop.set_epochs(1e-9);
  EXPECT_EQ(DataPlan::Make(options).blocks, 1u);
  EXPECT_EQ(DataPlan::Make(options).last_block_examples, 1u);
}

TEST(DataPlanTest, StepsAreBatchesThatDoNotSpanBlocks) {
  DataPlanOptions options = FourBlocks();
  options.stop.set_steps(15);
  EXPECT_EQ(DataPlan::Make(options).blocks, 5u);
  EXPECT_EQ(DataPlan::Make(options).last_block_examples, 5u);
  EXPECT_EQ(DataPlan::Make(options).examples, 75u);
  options.batch_size = 8;  // 3, 3, 3 and 2 steps
  options.stop.set_steps(6);
  EXPECT_EQ(DataPlan::Make(options).blocks, 2u);
  EXPECT_EQ(DataPlan::Make(options).last_block_examples, 0u);
  options.stop.set_steps(11);
  EXPECT_EQ(DataPlan::Make(options).examples, 70u);
  options.stop.set_steps(10);
  EXPECT_EQ(DataPlan::Make(options).last_block_examples, 8u);
}

TEST(DataPlanTest, TheFirstLimitEndsIt) {
  DataPlanOptions options = FourBlocks();
  options.stop.set_epochs(1);
  options.stop.set_steps(1000);
  EXPECT_EQ(DataPlan::Make(options).blocks, 4u);
  options.stop.set_steps(13);
  EXPECT_EQ(DataPlan::Make(options).blocks, 4u);
  EXPECT_EQ(DataPlan::Make(options).last_block_examples, 5u);
}

TEST(DataPlanTest, LimitsCountFromTheVeryBeginning) {
  DataPlanOptions options = FourBlocks();
  options.resumed.set_epochs_done(5);
  options.resumed.set_blocks_done(20);
  options.resumed.set_examples_done(350);
  options.resumed.set_steps(70);
  options.stop.set_epochs(10);
  EXPECT_EQ(DataPlan::Make(options).blocks, 40u);
  EXPECT_EQ(DataPlan::Make(options).examples, 700u);
  options.stop.clear_epochs();
  options.stop.set_steps(84);
  EXPECT_EQ(DataPlan::Make(options).blocks, 24u);
  options.stop.set_steps(85);
  EXPECT_EQ(DataPlan::Make(options).blocks, 25u);
  EXPECT_EQ(DataPlan::Make(options).last_block_examples, 5u);
  // More is done than is wanted: nothing is left.
  options.stop.set_steps(30);
  EXPECT_EQ(DataPlan::Make(options).blocks, 20u);
  EXPECT_EQ(DataPlan::Make(options).examples, 350u);
}

TEST(DataPlanTest, APartOfABlockIsMadeUpForAtTheEnd) {
  // Stopped after 6 steps: of block 1 two of four were granted, and it is done.
  DataPlanOptions options = FourBlocks();
  AddRun(0, 0, 2, &options.resumed);
  options.resumed.set_blocks_done(2);
  options.resumed.set_examples_done(30);
  options.resumed.set_steps(6);
  options.stop.set_steps(14);
  // 8 steps are left: 4 of block 2, 2 of block 3, 2 of the next epoch.
  EXPECT_EQ(DataPlan::Make(options).blocks, 5u);
  EXPECT_EQ(DataPlan::Make(options).last_block_examples, 10u);
  EXPECT_EQ(DataPlan::Make(options).examples, 70u);
}

TEST(DataPlanTest, BlocksHave32BitsForTheirEpoch) {
  DataPlanOptions options = FourBlocks();
  options.stop.set_steps(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(DataPlan::Make(options).blocks, DataPlan::kNoLimit);
}

// Block by block.
DataPlan Naive(const DataPlanOptions& options, bool steps, uint64_t remaining) {
  const uint64_t per_epoch =
      (options.examples + options.block_examples - 1) / options.block_examples;
  DataPlan plan;
  plan.blocks = options.resumed.epochs_done() * per_epoch;
  plan.examples = options.resumed.examples_done();
  for (uint64_t number = plan.blocks; remaining > 0; ++number) {
    bool done = false;
    for (const EpochCursor& cursor : options.resumed.epoch()) {
      for (const EpochCursor::Run& run : cursor.done()) {
        done |= cursor.epoch() == number / per_epoch && number % per_epoch >= run.first() &&
                number % per_epoch < run.end();
      }
    }
    const uint64_t begin = number % per_epoch * options.block_examples;
    const uint64_t size = std::min(options.block_examples, options.examples - begin);
    uint64_t granted = 0;
    while (!done && remaining > 0 && granted < size) {
      const uint64_t batch = steps ? options.batch_size : 1;
      granted = std::min(granted + batch, size);
      --remaining;
    }
    if (!done) {
      plan.blocks = number + 1;
      plan.last_block_examples = granted == size ? 0 : granted;
      plan.examples += granted;
    }
  }
  return plan;
}

TEST(DataPlanTest, AgreesWithGoingBlockByBlock) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    DataPlanOptions options;
    options.examples = 1 + random() % 90;
    options.batch_size = 1 + random() % 9;
    options.block_examples = options.batch_size * (1 + random() % 5);
    const uint64_t per_epoch =
        (options.examples + options.block_examples - 1) / options.block_examples;
    options.resumed.set_epochs_done(random() % 4);
    options.resumed.set_examples_done(random() % 300);
    options.resumed.set_steps(random() % 60);
    for (uint32_t epoch = options.resumed.epochs_done(); epoch < 6; epoch += 1 + random() % 2) {
      for (uint32_t block = random() % 3; block < per_epoch; block += 2 + random() % 3) {
        AddRun(epoch, block, block + 1, &options.resumed);
      }
    }
    const bool steps = random() % 2 == 0;
    const uint64_t limit = 1 + random() % 400;
    steps ? options.stop.set_steps(limit)
          : options.stop.set_epochs(static_cast<double>(limit) /
                                    static_cast<double>(options.examples));
    const uint64_t done = steps ? options.resumed.steps() : options.resumed.examples_done();
    const DataPlan expected = Naive(options, steps, limit > done ? limit - done : 0);
    const DataPlan plan = DataPlan::Make(options);
    ASSERT_EQ(plan.blocks, expected.blocks) << "round " << round;
    ASSERT_EQ(plan.last_block_examples, expected.last_block_examples) << "round " << round;
    ASSERT_EQ(plan.examples, expected.examples) << "round " << round;
  }
}

}  // namespace
}  // namespace monsoon
