#include "coordinator/session/recent_latency.h"

#include "common/metrics/latency_histogram.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

void AddCounts(const LatencyHistogram& counts, RecentLatency::Buckets* buckets) {
  for (const auto& [bucket, count] : counts.buckets()) {
    (*buckets)[bucket] += count;
  }
}

LatencyHistogram Times(int count, double milliseconds) {
  LatencyHistogram histogram;
  for (int i = 0; i < count; ++i) {
    histogram.Add(milliseconds);
  }
  return histogram;
}

TEST(RecentLatencyTest, TheLastSecondsAreNotHiddenByTheHourBefore) {
  RecentLatency recent;
  RecentLatency::Buckets before, after;
  EXPECT_FALSE(recent.Median(absl::ZeroDuration()).has_value());
  AddCounts(Times(100000, 8.7), &after);
  recent.Add(absl::Seconds(1), before, after);
  EXPECT_NEAR(*recent.Median(absl::Seconds(1)), 8.7, 0.2);
  // Each fetch takes 3 s from now on.
  for (int second = 4; second <= 40; second += 3) {
    before = after;
    AddCounts(Times(1, 3000), &after);
    recent.Add(absl::Seconds(second), before, after);
  }
  EXPECT_NEAR(*recent.Median(absl::Seconds(40)), 3000, 66);
  // Nothing happens any more.
  EXPECT_FALSE(recent.Median(absl::Seconds(60)).has_value());
}

TEST(RecentLatencyTest, AnotherSessionBeginsAtZero) {
  RecentLatency recent;
  RecentLatency::Buckets first, second;
  AddCounts(Times(10, 5), &first);
  recent.Add(absl::Seconds(1), {}, first);
  recent.Add(absl::Seconds(2), first, first);
  AddCounts(Times(30, 20), &second);
  recent.Add(absl::Seconds(3), {}, second);
  EXPECT_NEAR(*recent.Median(absl::Seconds(3)), 20, 0.5);
}

}  // namespace
}  // namespace monsoon
