// LatencyHistogram: counts of durations in logarithmic buckets 1/16 octave
// wide (relative error of a quantile at most 2.2 %), from 1 microsecond up.
// Mergeable and small, so that replicas can send theirs.
//
// Thread safety: none; the owner locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace monsoon {

class LatencyHistogram {
 public:
  // Bucket -> count, as it travels in ReplicaStats.
  using Buckets = std::map<uint32_t, uint64_t>;

  void Add(double milliseconds);
  void Merge(uint32_t bucket, uint64_t count) { buckets_[bucket] += count; }

  const Buckets& buckets() const { return buckets_; }
  uint64_t count() const;

  // The q-quantile in milliseconds (the middle of its bucket), q in [0, 1]:
  // the smallest bucket with at least ceil(q * count) values at or below it.
  // Nothing when empty.
  std::optional<double> Quantile(double q) const;

 private:
  Buckets buckets_;
};

// The same rule over exact values: the smallest value v with at least
// ceil(q * total) counts at or below v.
std::optional<uint64_t> ValueQuantile(const std::map<uint64_t, uint64_t>& counts, double q);

}  // namespace monsoon
