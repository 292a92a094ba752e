#include "worker/data/prefetcher.h"

#include <thread>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(30);

// Sample i is (i, 2i) with label i.
InMemoryDataset Numbers(size_t examples) {
  std::vector<float> floats;
  std::vector<uint32_t> labels;
  for (size_t i = 0; i < examples; ++i) {
    floats.push_back(static_cast<float>(i));
    floats.push_back(static_cast<float>(2 * i));
    labels.push_back(static_cast<uint32_t>(i));
  }
  return InMemoryDataset({}, std::move(floats), std::move(labels), {});
}

TEST(PrefetcherTest, ServesTheBlocksInOrderWithTheirSamples) {
  const InMemoryDataset source = Numbers(103);
  Prefetcher prefetcher(&source, {.seed = 5, .batch_size = 8, .block_examples = 24});
  std::vector<uint32_t> expected;
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<uint32_t> order = EpochPermutation(5, epoch, 103);
    expected.insert(expected.end(), order.begin(), order.end());
    for (uint64_t block = 0; block < prefetcher.layout().blocks(); ++block) {
      prefetcher.AddBlock({epoch, block});
    }
  }
  prefetcher.Finish();
  std::vector<uint32_t> seen;
  uint64_t ended_blocks = 0;
  while (true) {
    auto next = prefetcher.Next(kLong);
    if (!next.ok()) {
      EXPECT_THAT(next.status(), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("served")));
      break;
    }
    const Batch& batch = (*next)->batch;
    EXPECT_EQ((*next)->block,
              (BlockKey{static_cast<uint32_t>(ended_blocks / 5), ended_blocks % 5}));
    for (size_t i = 0; i < batch.examples; ++i) {
      EXPECT_EQ(batch.inputs.data()[2 * i], static_cast<float>(batch.labels[i]));
      EXPECT_EQ(batch.inputs.data()[2 * i + 1], 2 * static_cast<float>(batch.labels[i]));
      seen.push_back(batch.labels[i]);
    }
    ended_blocks += (*next)->last_of_block ? 1 : 0;
    prefetcher.Recycle(*std::move(next));
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(ended_blocks, 15u);
}

TEST(PrefetcherTest, SaysThatNoBlockWasAdded) {
  const InMemoryDataset source = Numbers(10);
  Prefetcher prefetcher(&source, {.batch_size = 4, .block_examples = 8});
  EXPECT_THAT(prefetcher.Next(absl::Milliseconds(1)).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("no block was added")));
  prefetcher.AddBlock({0, 1});
  ASSERT_OK_AND_ASSIGN(const auto batch, prefetcher.Next(kLong));
  EXPECT_EQ(batch->batch.examples, 2u);
  EXPECT_TRUE(batch->last_of_block);
}

TEST(PrefetcherTest, BatchesAreReused) {
  const InMemoryDataset source = Numbers(64);
  Prefetcher prefetcher(&source, {.batch_size = 1, .block_examples = 64, .depth = 1});
  prefetcher.AddBlock({0, 0});
  prefetcher.Finish();
  std::vector<const float*> buffers;
  for (int i = 0; i < 64; ++i) {
    ASSERT_OK_AND_ASSIGN(auto batch, prefetcher.Next(kLong));
    const float* buffer = batch->batch.inputs.data();
    if (std::find(buffers.begin(), buffers.end(), buffer) == buffers.end()) {
      buffers.push_back(buffer);
    }
    prefetcher.Recycle(std::move(batch));
  }
  // One in use, one ready, one being gathered.
  EXPECT_LE(buffers.size(), 3u);
}

TEST(PrefetcherTest, StopEndsAWaitAndAFullQueue) {
  const InMemoryDataset source = Numbers(100);
  Prefetcher full(&source, {.batch_size = 1, .block_examples = 100});
  full.AddBlock({0, 0});  // never drained: the destructor must not hang
  ASSERT_OK(full.Next(kLong).status());

  Prefetcher idle(&source, {.batch_size = 1, .block_examples = 100});
  std::thread stopper([&] { idle.Stop(); });
  EXPECT_THAT(idle.Next(kLong).status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("stopped")));
  stopper.join();
}

}  // namespace
}  // namespace monsoon
