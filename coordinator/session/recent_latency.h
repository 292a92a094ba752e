// RecentLatency: the latencies of the last seconds, out of histograms that grow over whole
// sessions (ReplicaStats).
//
// `now` (since any origin) never goes back. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "coordinator/session/recent_counts.h"

namespace monsoon {

class RecentLatency {
 public:
  using Buckets = RecentCounts<uint32_t>::Counts;

  // A session's buckets grew from `before` to `after`.
  void Add(absl::Duration now, const Buckets& before, const Buckets& after) {
    counts_.Add(now, before, after);
  }
  // Over the window of RecentCounts; nothing where nothing was measured then.
  std::optional<double> Median(absl::Duration now) const;

 private:
  RecentCounts<uint32_t> counts_;
};

}  // namespace monsoon
