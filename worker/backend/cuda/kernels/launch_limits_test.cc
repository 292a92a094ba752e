#include "worker/backend/cuda/kernels/launch_limits.h"

#include <array>
#include <cstdint>

#include "gtest/gtest.h"

namespace monsoon::cuda {
namespace {

// The largest grid that CUDA launches, in its first dimension.
constexpr uint64_t kLargestGrid = (uint64_t{1} << 31) - 1;
constexpr std::array<uint64_t, 6> kCounts = {
    1, kThreads, kThreads + 1, (uint64_t{1} << 31) - 1, uint64_t{1} << 31, (uint64_t{1} << 31) + 1};

TEST(LaunchLimitsTest, CountsOfMoreThan31BitsAreRefused) {
  EXPECT_GE(kMaxElements, kCounts[3]);
  EXPECT_GE(kMaxElements, kCounts[4]);
  EXPECT_LT(kMaxElements, kCounts[5]);
}

TEST(LaunchLimitsTest, EachElementIsTakenOnceAndNoStrideOverflows) {
  for (const uint64_t count : kCounts) {
    if (count > kMaxElements) {
      continue;
    }
    const uint64_t stride = uint64_t{BlocksForElements(count)} * kThreads;
    EXPECT_GE(BlocksForElements(count), 1u);
    EXPECT_LE(BlocksForElements(count), kLargestGrid);
    // ForEachKernel in 32 bits, as its last and its most striding thread go.
    for (const uint64_t first : {uint64_t{0}, stride - 1}) {
      uint64_t in_64 = first;
      for (uint32_t i = static_cast<uint32_t>(first); i < static_cast<uint32_t>(count);
           i += static_cast<uint32_t>(stride)) {
        ASSERT_EQ(i, in_64) << count;
        in_64 += stride;
      }
      EXPECT_GE(in_64, count);
      EXPECT_LT(in_64, uint64_t{1} << 32) << count;
    }
  }
}

TEST(LaunchLimitsTest, EachRowHasABlockAndTheGridIsOneThatCudaLaunches) {
  for (const uint64_t rows : kCounts) {
    if (rows > kMaxElements) {
      continue;
    }
    const uint64_t blocks = BlocksForRows(rows);
    EXPECT_LE(blocks, kLargestGrid);
    EXPECT_EQ(blocks, rows <= kLargestGrid ? rows : kLargestGrid);
    // ReduceRowsKernel in 32 bits: block 0 takes the row that is left.
    uint64_t taken = 0;
    for (uint32_t row = 0; row < static_cast<uint32_t>(rows);
         row += static_cast<uint32_t>(blocks)) {
      ASSERT_EQ(row, taken * blocks);
      ++taken;
    }
    EXPECT_EQ(taken, rows > kLargestGrid ? 2u : 1u);
    EXPECT_LT(taken * blocks, uint64_t{1} << 32);
  }
}

}  // namespace
}  // namespace monsoon::cuda
