#include "worker/data/permutation.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(EpochPermutationTest, HoldsEachIndexOnce) {
  for (const uint32_t examples : {1u, 2u, 17u, 60'000u}) {
    std::vector<uint32_t> order = EpochPermutation(1, 2, examples);
    std::sort(order.begin(), order.end());
    std::vector<uint32_t> all(examples);
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_EQ(order, all);
  }
}

TEST(EpochPermutationTest, FollowsSeedAndEpochAlone) {
  const std::vector<uint32_t> order = EpochPermutation(1, 2, 1000);
  EXPECT_EQ(order, EpochPermutation(1, 2, 1000));
  EXPECT_NE(order, EpochPermutation(1, 3, 1000));
  EXPECT_NE(order, EpochPermutation(2, 2, 1000));
}

TEST(BatchSampleTest, IsAFixedSubsetByTheSeed) {
  const std::vector<uint32_t> sample = BatchSample(7, 300, 1000);
  ASSERT_EQ(sample.size(), 300u);
  EXPECT_TRUE(std::is_sorted(sample.begin(), sample.end()));
  EXPECT_EQ(std::adjacent_find(sample.begin(), sample.end()), sample.end());
  EXPECT_LT(sample.back(), 1000u);
  EXPECT_GT(sample.back(), 300u);  // not the front of the data set
  EXPECT_EQ(sample, BatchSample(7, 300, 1000));
  EXPECT_NE(sample, BatchSample(8, 300, 1000));
}

TEST(BatchSampleTest, AllSamplesKeepTheirOrder) {
  std::vector<uint32_t> all(10);
  std::iota(all.begin(), all.end(), 0u);
  for (const uint64_t size : {0, 10, 11}) {
    EXPECT_EQ(BatchSample(7, size, 10), all) << size;
  }
}

TEST(EpochPermutationTest, PlacesAreUniform) {
  // Where index 0 ends up over 4000 epochs, in 10 places.
  std::vector<int> counts(10);
  for (uint32_t epoch = 0; epoch < 4000; ++epoch) {
    const std::vector<uint32_t> order = EpochPermutation(7, epoch, 10);
    ++counts[std::find(order.begin(), order.end(), 0u) - order.begin()];
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 400, 6 * 19);  // six standard deviations
  }
}

TEST(BlockLayoutTest, BatchesOfAllBlocksAreThePermutationInOrder) {
  for (const uint32_t examples : {1u, 63u, 64u, 65u, 1000u}) {
    const std::vector<uint32_t> order = EpochPermutation(1, 0, examples);
    const BlockLayout layout{examples, 64, 16};
    std::vector<uint32_t> seen;
    for (uint64_t block = 0; block < layout.blocks(); ++block) {
      for (uint64_t i = 0; i < layout.batches(block); ++i) {
        const std::span<const uint32_t> batch = layout.Batch(order, block, i);
        EXPECT_GE(batch.size(), 1u);
        EXPECT_LE(batch.size(), 16u);
        seen.insert(seen.end(), batch.begin(), batch.end());
      }
    }
    EXPECT_EQ(seen, order);
  }
}

TEST(BlockLayoutTest, CountsBlocksAndTails) {
  const BlockLayout layout{1000, 256, 100};
  EXPECT_EQ(layout.blocks(), 4u);
  EXPECT_EQ(layout.batches(0), 3u);  // 100, 100, 56
  EXPECT_EQ(layout.batches(3), 3u);  // 100, 100, 32
  const std::vector<uint32_t> order = EpochPermutation(1, 0, 1000);
  EXPECT_EQ(layout.Batch(order, 0, 2).size(), 56u);
  EXPECT_EQ(layout.Batch(order, 3, 2).size(), 32u);
}

TEST(BlockLayoutTest, EightBatchesUnlessTold) {
  EXPECT_EQ(BlockExamples(0, 64), 512u);
  EXPECT_EQ(BlockExamples(128, 64), 128u);
}

}  // namespace
}  // namespace monsoon
