#include "worker/sidecar/leased_batches.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/client/exchange.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

Job JobOf(uint64_t examples) {
  Job job;
  job.set_seed(3);
  job.set_batch_size(4);
  job.set_block_examples(8);
  job.mutable_train()->mutable_joiners()->set_examples(examples);
  return job;
}

BlockId Block(uint32_t epoch, uint32_t block, uint32_t examples = 0) {
  BlockId id;
  id.set_epoch(epoch);
  id.set_block(block);
  id.set_examples(examples);
  return id;
}

struct Drawn {
  uint32_t epoch;
  std::vector<uint32_t> samples;
};

std::vector<Drawn> Draw(LeasedBatches* batches) {
  const std::string bytes = batches->Draw();
  std::vector<Drawn> drawn;
  if (bytes.empty()) {
    return drawn;
  }
  FieldReader fields(bytes);
  drawn.resize(fields.Number<uint32_t>());
  for (Drawn& batch : drawn) {
    batch.epoch = fields.Number<uint32_t>();
    batch.samples.resize(fields.Number<uint32_t>());
    for (uint32_t& sample : batch.samples) {
      sample = fields.Number<uint32_t>();
    }
  }
  EXPECT_TRUE(fields.ok());
  return drawn;
}

TEST(LeasedBatchesTest, AnEpochsBlocksHoldEachSampleOnce) {
  LeasedBatches batches(JobOf(19), 19);
  for (uint32_t block = 0; block < 3; ++block) {
    ASSERT_OK(batches.Append(Block(1, block)));
  }
  std::multiset<uint32_t> samples;
  std::vector<size_t> sizes;
  for (const Drawn& batch : Draw(&batches)) {
    EXPECT_EQ(batch.epoch, 1u);
    sizes.push_back(batch.samples.size());
    samples.insert(batch.samples.begin(), batch.samples.end());
  }
  EXPECT_THAT(sizes, ::testing::ElementsAre(4, 4, 4, 4, 3));
  EXPECT_EQ(samples.size(), 19u);
  EXPECT_EQ(std::set<uint32_t>(samples.begin(), samples.end()).size(), 19u);
}

TEST(LeasedBatchesTest, ABlockEndsWithItsLastBatch) {
  LeasedBatches batches(JobOf(100), 100);
  ASSERT_OK(batches.Append(Block(0, 2)));
  ASSERT_OK(batches.Append(Block(0, 5)));
  EXPECT_EQ(batches.blocks_left(), 2u);
  EXPECT_FALSE(batches.wants_more(1));
  EXPECT_EQ(Draw(&batches).size(), 4u);
  EXPECT_TRUE(batches.wants_more(1));
  EXPECT_EQ(batches.outstanding(), 4u);
  ASSERT_OK_AND_ASSIGN(std::vector<BlockId> ended, batches.Count(1));
  EXPECT_TRUE(ended.empty());
  ASSERT_OK_AND_ASSIGN(ended, batches.Count(2));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].block(), 2u);
  EXPECT_EQ(batches.blocks_left(), 1u);
  ASSERT_OK_AND_ASSIGN(ended, batches.Count(1));
  EXPECT_EQ(ended[0].block(), 5u);
  EXPECT_EQ(batches.blocks_left(), 0u);
}

TEST(LeasedBatchesTest, WhatIsNotDrawnCannotBeCounted) {
  LeasedBatches batches(JobOf(100), 100);
  ASSERT_OK(batches.Append(Block(0, 0)));
  EXPECT_THAT(batches.Count(1), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 are")));
  EXPECT_THAT(batches.Append(Block(0, 13)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("block 13 of 13")));
}

TEST(LeasedBatchesTest, AShortLeaseGrantsItsBeginning) {
  LeasedBatches batches(JobOf(100), 100);
  ASSERT_OK(batches.Append(Block(0, 0, /*examples=*/5)));
  const std::vector<Drawn> drawn = Draw(&batches);
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_EQ(drawn[1].samples.size(), 1u);
}

TEST(LeasedBatchesTest, UnnumberedSamplesNeedNoPermutation) {
  Job job = JobOf(0);
  job.mutable_train()->mutable_joiners()->set_unnumbered(true);
  LeasedBatches batches(job, uint64_t{1} << 40);
  ASSERT_OK(batches.Append(Block(0, 1u << 30)));
  const std::vector<Drawn> drawn = Draw(&batches);
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_THAT(drawn[0].samples, ::testing::ElementsAre(0, 1, 2, 3));
}

TEST(LeasedBatchesTest, WithoutSamplesForTheRestItsBlocksEnd) {
  LeasedBatches batches(JobOf(100), 100);
  ASSERT_OK(batches.Append(Block(0, 1)));
  EXPECT_EQ(Draw(&batches).size(), 2u);
  ASSERT_OK(batches.Append(Block(0, 2)));
  ASSERT_OK(batches.Count(1).status());
  std::vector<uint32_t> ended;
  for (const BlockId& block : batches.CountAll()) {
    ended.push_back(block.block());
  }
  EXPECT_THAT(ended, ::testing::ElementsAre(1, 2));
  EXPECT_EQ(batches.blocks_left(), 0u);
  EXPECT_EQ(batches.outstanding(), 0u);
}

TEST(LeasedBatchesTest, OfAProgramThatTakesNoMoreNoBlockEnds) {
  LeasedBatches batches(JobOf(100), 100);
  ASSERT_OK(batches.Append(Block(0, 1)));
  EXPECT_EQ(Draw(&batches).size(), 2u);
  ASSERT_OK(batches.Append(Block(0, 2)));
  batches.Close();
  EXPECT_EQ(batches.blocks_left(), 0u);
  EXPECT_EQ(batches.outstanding(), 0u);
  ASSERT_OK(batches.Append(Block(0, 3)));  // it was asked for before
  EXPECT_EQ(batches.blocks_left(), 0u);
  EXPECT_TRUE(Draw(&batches).empty());
}

}  // namespace
}  // namespace monsoon
