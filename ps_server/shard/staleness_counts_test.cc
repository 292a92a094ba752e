#include "ps_server/shard/staleness_counts.h"

#include <cstdint>
#include <map>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(StalenessCounts, AreExactWhereValuesAreSmall) {
  StalenessCounts counts;
  counts.Add(0);
  counts.Add(0);
  counts.Add(7);
  counts.Add(1023);
  counts.Add(-1);
  EXPECT_EQ(counts.known(), (std::map<uint64_t, uint64_t>{{0, 2}, {7, 1}, {1023, 1}}));
  EXPECT_EQ(counts.unknown(), 1u);
}

TEST(StalenessCounts, RoundLargeValuesDownToSixBits) {
  StalenessCounts counts;
  counts.Add(1024);
  counts.Add(1024 + 31);  // as 1024
  counts.Add(1024 + 32);  // the next one
  counts.Add(0xfffff);    // 0b111111 << 14
  counts.Add(INT64_MAX);  // 0b111111 << 57
  EXPECT_EQ(counts.known(),
            (std::map<uint64_t, uint64_t>{
                {1024, 2}, {1056, 1}, {uint64_t{63} << 14, 1}, {uint64_t{63} << 57, 1}}));
}

// What a sender invents takes no memory: the number of values is bounded.
TEST(StalenessCounts, HaveABoundedNumberOfValues) {
  StalenessCounts counts;
  uint64_t value = 1;
  for (int i = 0; i < 100'000; ++i) {
    value = value * 6364136223846793005u + 1442695040888963407u;
    counts.Add(static_cast<int64_t>(value >> (1 + i % 63)));
  }
  EXPECT_LE(counts.known().size(), 1024u + 53u * 32u);
}

}  // namespace
}  // namespace monsoon
