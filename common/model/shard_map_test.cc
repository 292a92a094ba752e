#include "common/model/shard_map.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

// The invariants of the header. Returns nothing; adds failures.
void CheckInvariants(uint64_t size, uint32_t shards, uint64_t max_stripe_bytes) {
  SCOPED_TRACE(::testing::Message() << size << " floats, " << shards << " shards, "
                                    << max_stripe_bytes << " bytes a stripe");
  ASSERT_OK_AND_ASSIGN(const ShardMap map, ShardMap::Create(size, shards, max_stripe_bytes));
  ASSERT_EQ(map.shards(), shards);
  ASSERT_EQ(map.size(), size);
  ASSERT_EQ(map.stripe_floats() % kAlignmentFloats, 0u);
  ASSERT_GT(map.stripe_floats(), 0u);
  ASSERT_LE(map.stripe_floats() * sizeof(float), max_stripe_bytes);
  uint64_t next = 0;
  uint64_t smallest = size, largest = 0;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    ASSERT_EQ(map.shard(shard).begin, next);
    ASSERT_GE(map.stripes(shard), 1u);
    for (uint32_t stripe = 0; stripe < map.stripes(shard); ++stripe) {
      const Slice slice = map.stripe(shard, stripe);
      ASSERT_EQ(slice.begin, next);
      const bool last = shard + 1 == shards && stripe + 1 == map.stripes(shard);
      if (last) {
        ASSERT_GT(slice.size(), 0u);
        ASSERT_LE(slice.size(), map.stripe_floats());
      } else {
        ASSERT_EQ(slice.size(), map.stripe_floats());
      }
      next = slice.end;
    }
    ASSERT_EQ(map.shard(shard).end, next);
    smallest = std::min(smallest, map.shard(shard).size());
    largest = std::max(largest, map.shard(shard).size());
  }
  ASSERT_EQ(next, size);
  ASSERT_LE(largest - smallest, map.stripe_floats());
}

TEST(ShardMapTest, InvariantsHoldForEverySmallVector) {
  for (uint64_t lines = 1; lines <= 40; ++lines) {
    for (uint32_t shards = 1; shards <= lines; ++shards) {
      for (uint64_t stripe_bytes : {64, 128, 192, 1024, 1 << 20}) {
        ASSERT_NO_FATAL_FAILURE(CheckInvariants(lines * kAlignmentFloats, shards, stripe_bytes));
      }
    }
  }
}

TEST(ShardMapTest, InvariantsHoldForRandomSizes) {
  const PhiloxStream random(3, StreamKind::kTest);
  for (uint64_t i = 0; i < 2000; ++i) {
    const uint64_t lines = 1 + random.Below(4 * i, 1u << (1 + i % 20));
    const uint32_t shards =
        1 + random.Below(4 * i + 1, static_cast<uint32_t>(std::min<uint64_t>(lines, 300)));
    const uint64_t stripe_lines = 1 + random.Below(4 * i + 2, 1u << (1 + i % 14));
    // No more than 2^13 stripes, to keep the test short.
    const uint64_t stripe_bytes = 64 * std::max(stripe_lines, lines >> 13);
    ASSERT_NO_FATAL_FAILURE(CheckInvariants(lines * kAlignmentFloats, shards, stripe_bytes));
  }
}

TEST(ShardMapTest, InvariantsHoldForLenetAndABillionParameters) {
  for (uint32_t shards : {1u, 2u, 3u, 7u, 16u}) {
    ASSERT_NO_FATAL_FAILURE(CheckInvariants(129104, shards, kMaxStripeBytes));
    ASSERT_NO_FATAL_FAILURE(CheckInvariants(1ull << 30, shards, kMaxStripeBytes));
  }
}

TEST(ShardMapTest, AsManyShardsAsLinesGetOneLineEach) {
  ASSERT_OK_AND_ASSIGN(const ShardMap map, ShardMap::Create(7 * kAlignmentFloats, 7));
  for (uint32_t shard = 0; shard < 7; ++shard) {
    EXPECT_EQ(map.shard(shard).size(), kAlignmentFloats);
  }
}

TEST(ShardMapTest, TheStripeShrinksUntilEveryShardHasOne) {
  // Ten lines in stripes of two are five stripes: too few for seven shards.
  ASSERT_OK_AND_ASSIGN(const ShardMap map, ShardMap::Create(10 * kAlignmentFloats, 7));
  EXPECT_EQ(map.stripe_floats(), kAlignmentFloats);
}

TEST(ShardMapTest, RefusesWhatCannotBeCut) {
  using absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(ShardMap::Create(0, 1), StatusIs(kInvalidArgument, HasSubstr("0 floats")));
  EXPECT_THAT(ShardMap::Create(17, 1), StatusIs(kInvalidArgument, HasSubstr("17 floats")));
  EXPECT_THAT(ShardMap::Create(32, 0), StatusIs(kInvalidArgument, HasSubstr("0 shards")));
  EXPECT_THAT(ShardMap::Create(32, 3),
              StatusIs(kInvalidArgument, HasSubstr("3 shards for a model of 2 64-byte lines")));
  for (uint64_t bytes : {0, 63, 65, (1 << 20) + 64}) {
    EXPECT_THAT(ShardMap::Create(32, 1, bytes),
                StatusIs(kInvalidArgument, HasSubstr("stripe size")))
        << bytes;
  }
}

}  // namespace
}  // namespace monsoon
