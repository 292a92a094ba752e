// RecentLatency: the latencies of the last seconds, out of histograms that grow over whole
// sessions (ReplicaStats). A median since the beginning hardly moves once a job has run for an
// hour, whatever happens to it.
//
// `now` (since any origin) never goes back. Not thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "absl/time/time.h"
#include "common/metrics/latency_histogram.h"
#include "google/protobuf/map.h"

namespace monsoon {

class RecentLatency {
 public:
  using Buckets = google::protobuf::Map<uint32_t, uint64_t>;

  // A session's buckets grew from `before` to `after`.
  void Add(absl::Duration now, const Buckets& before, const Buckets& after);
  // Over the last kWindow; nothing where nothing was measured then.
  std::optional<double> Median(absl::Duration now) const;

 private:
  static constexpr absl::Duration kWindow = absl::Seconds(10);
  // What comes within so short a time is kept as one.
  static constexpr absl::Duration kSlot = absl::Seconds(1);

  struct Slot {
    absl::Duration began;
    LatencyHistogram histogram;
  };

  std::deque<Slot> slots_;
};

}  // namespace monsoon
