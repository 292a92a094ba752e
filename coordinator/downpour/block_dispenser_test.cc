#include "coordinator/downpour/block_dispenser.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;

// 10 blocks an epoch, the last one with 5 of 10 samples.
BlockDispenser::Options TenBlocks(uint64_t total_blocks) {
  BlockDispenser::Options options;
  options.examples = 95;
  options.block_examples = 10;
  options.total_blocks = total_blocks;
  return options;
}

TEST(BlockDispenserTest, OneReplicaTakesEpochsInOrder) {
  BlockDispenser dispenser(TenBlocks(25));
  dispenser.SetReplicas({2});
  for (uint32_t i = 0; i < 25; ++i) {
    EXPECT_FALSE(dispenser.exhausted());
    const auto block = dispenser.Lease(2);
    ASSERT_TRUE(block.has_value()) << i;
    EXPECT_EQ(*block, (BlockRef{i / 10, i % 10}));
    EXPECT_TRUE(dispenser.Done(2, *block));
  }
  EXPECT_FALSE(dispenser.Lease(2).has_value());
  EXPECT_TRUE(dispenser.all_done());
  EXPECT_EQ(dispenser.blocks_done(), 25u);
  EXPECT_EQ(dispenser.examples_done(), 95u * 2 + 50);
}

TEST(BlockDispenserTest, PassesOverWhatWasDoneBefore) {
  BlockDispenser::Options options = TenBlocks(53);
  options.first_epoch = 3;
  for (uint32_t block = 0; block < 10; ++block) {
    options.done.push_back({3, block});  // as a whole
  }
  options.done.push_back({4, 1});
  options.done.push_back({4, 2});
  options.done.push_back({4, 2});  // once is enough
  options.done.push_back({5, 0});
  options.done.push_back({5, 7});   // beyond the limit
  options.done.push_back({4, 99});  // no block
  options.done.push_back({9, 0});
  BlockDispenser dispenser(options);
  dispenser.SetReplicas({0, 1});
  std::vector<uint64_t> taken;
  for (uint32_t worker = 0; const auto block = dispenser.Lease(worker); worker = 1 - worker) {
    taken.push_back(block->epoch * 10 + block->block);
    EXPECT_TRUE(dispenser.Done(worker, *block));
  }
  EXPECT_EQ(taken.size(), 10u);
  std::sort(taken.begin(), taken.end());
  EXPECT_THAT(taken, ElementsAre(40, 43, 44, 45, 46, 47, 48, 49, 51, 52));
  EXPECT_TRUE(dispenser.all_done());
  EXPECT_EQ(dispenser.blocks_done(), 10u);
}

TEST(BlockDispenserTest, ThereMayBeNothingLeft) {
  BlockDispenser::Options options = TenBlocks(30);
  options.first_epoch = 3;
  BlockDispenser all(options);
  EXPECT_TRUE(all.all_done());
  options.done.push_back({3, 5});
  BlockDispenser more(options);
  more.SetReplicas({0});
  EXPECT_FALSE(more.Lease(0).has_value());
  EXPECT_TRUE(more.all_done());
}

TEST(BlockDispenserTest, OwnersTakeTheirResidueThenOthersFromTheEnd) {
  BlockDispenser dispenser(TenBlocks(10));
  dispenser.SetReplicas({0, 4, 7});
  std::vector<uint32_t> taken;
  while (const auto block = dispenser.Lease(4)) {
    taken.push_back(block->block);
  }
  EXPECT_THAT(taken, ElementsAre(1, 4, 7, 9, 8, 6, 5, 3, 2, 0));
  EXPECT_FALSE(dispenser.Lease(0).has_value());
  EXPECT_TRUE(dispenser.exhausted());
  EXPECT_FALSE(dispenser.all_done());
  EXPECT_EQ(dispenser.held(4), 10u);
}

TEST(BlockDispenserTest, RunsAheadOneEpochOnly) {
  BlockDispenser dispenser(TenBlocks(100));
  dispenser.SetReplicas({0, 1});
  const BlockRef slow = *dispenser.Lease(1);
  for (int i = 0; i < 19; ++i) {
    const auto block = dispenser.Lease(0);
    ASSERT_TRUE(block.has_value()) << i;
    EXPECT_TRUE(dispenser.Done(0, *block));
  }
  EXPECT_FALSE(dispenser.Lease(0).has_value());
  EXPECT_FALSE(dispenser.exhausted());
  EXPECT_TRUE(dispenser.HoldsUp(1));
  EXPECT_FALSE(dispenser.HoldsUp(0));
  EXPECT_TRUE(dispenser.Done(1, slow));
  EXPECT_EQ(dispenser.Lease(0)->epoch, 2u);
}

TEST(BlockDispenserTest, ReleasedBlocksComeFirst) {
  BlockDispenser dispenser(TenBlocks(10));
  dispenser.SetReplicas({0, 1});
  const BlockRef a = *dispenser.Lease(1);
  const BlockRef b = *dispenser.Lease(1);
  EXPECT_TRUE(dispenser.Done(1, a));
  EXPECT_EQ(dispenser.Release(1), 1u);
  EXPECT_EQ(dispenser.blocks_released(), 1u);
  dispenser.SetReplicas({0});
  EXPECT_EQ(*dispenser.Lease(0), b);
  // Too late: the block is another's now.
  EXPECT_FALSE(dispenser.Done(1, b));
  EXPECT_TRUE(dispenser.Done(0, b));
  EXPECT_FALSE(dispenser.Done(0, b));
  EXPECT_EQ(dispenser.blocks_done(), 2u);
}

TEST(BlockDispenserTest, StopDropsWhatIsNotHeld) {
  BlockDispenser dispenser(TenBlocks(BlockDispenser::kNoLimit));
  dispenser.SetReplicas({0, 1});
  const BlockRef a = *dispenser.Lease(0);
  ASSERT_TRUE(dispenser.Lease(1).has_value());
  dispenser.Stop();
  EXPECT_TRUE(dispenser.exhausted());
  EXPECT_FALSE(dispenser.all_done());
  EXPECT_FALSE(dispenser.Lease(0).has_value());
  EXPECT_EQ(dispenser.Release(1), 0u);
  EXPECT_TRUE(dispenser.Done(0, a));
  EXPECT_TRUE(dispenser.all_done());
}

TEST(BlockDispenserTest, LateJoinerGetsAShare) {
  BlockDispenser dispenser(TenBlocks(10));
  dispenser.SetReplicas({0});
  ASSERT_EQ(dispenser.Lease(0)->block, 0u);
  ASSERT_EQ(dispenser.Lease(0)->block, 1u);
  dispenser.SetReplicas({0, 3});
  EXPECT_EQ(dispenser.Lease(3)->block, 3u);
  EXPECT_EQ(dispenser.Lease(0)->block, 2u);
  EXPECT_EQ(dispenser.Lease(3)->block, 5u);
}

// Random joins, losses, reports and repeated reports: each block of the limit
// is done at least once, exactly once where nobody was lost.
TEST(BlockDispenserTest, RandomSchedulesVisitEverything) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    BlockDispenser::Options options;
    options.examples = 1 + random() % 200;
    options.block_examples = 1 + random() % 20;
    const uint64_t blocks =
        (options.examples + options.block_examples - 1) / options.block_examples;
    options.total_blocks = 1 + random() % (3 * blocks);
    options.max_epochs_ahead = random() % 3;
    BlockDispenser dispenser(options);
    std::set<uint32_t> live = {0};
    dispenser.SetReplicas(live);
    std::map<uint32_t, std::vector<BlockRef>> held;
    std::map<BlockRef, int> done;
    uint64_t oldest_open = 0;
    uint64_t total_done = 0;
    for (int step = 0; !dispenser.all_done(); ++step) {
      ASSERT_LT(step, 100000) << seed;
      const uint32_t worker = random() % 4;
      if (random() % 20 == 0) {
        if (live.contains(worker) && live.size() > 1) {
          live.erase(worker);
          EXPECT_EQ(dispenser.Release(worker), held[worker].size());
          held[worker].clear();
        } else {
          live.insert(worker);
        }
        dispenser.SetReplicas(live);
        continue;
      }
      if (!live.contains(worker)) {
        continue;
      }
      if (random() % 2 == 0) {
        if (const auto block = dispenser.Lease(worker)) {
          EXPECT_LE(block->epoch, oldest_open + options.max_epochs_ahead);
          EXPECT_LT(block->epoch * blocks + block->block, options.total_blocks);
          for (const auto& [other, blocks_held] : held) {
            EXPECT_EQ(std::count(blocks_held.begin(), blocks_held.end(), *block), 0);
          }
          EXPECT_EQ(done[*block], 0);
          held[worker].push_back(*block);
        }
      } else if (!held[worker].empty()) {
        const BlockRef block = held[worker].front();
        held[worker].erase(held[worker].begin());
        EXPECT_TRUE(dispenser.Done(worker, block));
        EXPECT_FALSE(dispenser.Done(worker, block));
        ++done[block];
        ++total_done;
        while (oldest_open * blocks < options.total_blocks) {
          bool complete = true;
          for (uint64_t b = 0; b < std::min(blocks, options.total_blocks - oldest_open * blocks);
               ++b) {
            complete &= done[{static_cast<uint32_t>(oldest_open), static_cast<uint32_t>(b)}] > 0;
          }
          if (!complete) {
            break;
          }
          ++oldest_open;
        }
      }
    }
    EXPECT_EQ(total_done, options.total_blocks) << seed;
    for (uint64_t i = 0; i < options.total_blocks; ++i) {
      const BlockRef block{static_cast<uint32_t>(i / blocks), static_cast<uint32_t>(i % blocks)};
      EXPECT_EQ(done[block], 1) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace monsoon
