#include "coordinator/session/recent_latency.h"

namespace monsoon {

void RecentLatency::Add(absl::Duration now, const Buckets& before, const Buckets& after) {
  while (!slots_.empty() && now - slots_.front().began > kWindow) {
    slots_.pop_front();
  }
  for (const auto& [bucket, count] : after) {
    const auto known = before.find(bucket);
    const uint64_t old = known == before.end() ? 0 : known->second;
    if (count <= old) {
      continue;
    }
    if (slots_.empty() || now - slots_.back().began >= kSlot) {
      slots_.push_back({now, {}});
    }
    slots_.back().histogram.Merge(bucket, count - old);
  }
}

std::optional<double> RecentLatency::Median(absl::Duration now) const {
  LatencyHistogram sum;
  for (const Slot& slot : slots_) {
    if (now - slot.began > kWindow) {
      continue;
    }
    for (const auto& [bucket, count] : slot.histogram.buckets()) {
      sum.Merge(bucket, count);
    }
  }
  return sum.Quantile(0.5);
}

}  // namespace monsoon
