#include "coordinator/session/recent_latency.h"

#include "common/metrics/latency_histogram.h"

namespace monsoon {

std::optional<double> RecentLatency::Median(absl::Duration now) const {
  LatencyHistogram sum;
  for (const auto& [bucket, count] : counts_.Sum(now)) {
    sum.Merge(bucket, count);
  }
  return sum.Quantile(0.5);
}

}  // namespace monsoon
