#include "coordinator/session/recent_counts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(RecentCountsTest, HoldsWhatTheLastSecondsHaveAdded) {
  RecentCounts<uint64_t> recent;
  RecentCounts<uint64_t>::Counts before, after;
  after[1] = 1000;
  recent.Add(absl::Seconds(1), before, after);
  EXPECT_THAT(recent.Sum(absl::Seconds(2)), ElementsAre(Pair(1, 1000)));
  before = after;
  after[1] = 1003;
  after[7] = 20;
  recent.Add(absl::Seconds(9), before, after);
  recent.Add(absl::Seconds(10), after, after);  // nothing new
  EXPECT_THAT(recent.Sum(absl::Seconds(11)), ElementsAre(Pair(1, 1003), Pair(7, 20)));
  EXPECT_THAT(recent.Sum(absl::Seconds(12)), ElementsAre(Pair(1, 3), Pair(7, 20)));
  EXPECT_THAT(recent.Sum(absl::Seconds(20)), IsEmpty());
}

// A report that was overtaken by a newer one.
TEST(RecentCountsTest, TakesNothingOfWhatHasShrunk) {
  RecentCounts<uint64_t> recent;
  RecentCounts<uint64_t>::Counts more, fewer;
  more[1] = 10;
  fewer[1] = 5;
  recent.Add(absl::Seconds(1), more, fewer);
  EXPECT_THAT(recent.Sum(absl::Seconds(1)), IsEmpty());
}

}  // namespace
}  // namespace monsoon
