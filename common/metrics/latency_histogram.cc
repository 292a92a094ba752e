#include "common/metrics/latency_histogram.h"

#include <algorithm>
#include <cmath>

namespace monsoon {
namespace {

constexpr double kBucketsPerOctave = 16.0;
constexpr double kSmallestMs = 1e-3;
constexpr uint32_t kLastBucket = 40 * 16;  // 2^40 microseconds, 12 days

template <typename Value>
std::optional<Value> QuantileOf(const std::map<Value, uint64_t>& counts, double q) {
  uint64_t total = 0;
  for (const auto& [value, count] : counts) {
    total += count;
  }
  if (total == 0) {
    return std::nullopt;
  }
  const uint64_t wanted =
      std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(q * static_cast<double>(total))));
  uint64_t seen = 0;
  for (const auto& [value, count] : counts) {
    seen += count;
    if (seen >= wanted) {
      return value;
    }
  }
  return counts.rbegin()->first;
}

}  // namespace

void LatencyHistogram::Add(double milliseconds) {
  const double octaves = std::log2(std::max(milliseconds, kSmallestMs) / kSmallestMs);
  const auto bucket = static_cast<uint32_t>(octaves * kBucketsPerOctave);
  ++buckets_[std::min(bucket, kLastBucket)];
}

uint64_t LatencyHistogram::count() const {
  uint64_t total = 0;
  for (const auto& [bucket, count] : buckets_) {
    total += count;
  }
  return total;
}

std::optional<double> LatencyHistogram::Quantile(double q) const {
  const std::optional<uint32_t> bucket = QuantileOf(buckets_, q);
  if (!bucket.has_value()) {
    return std::nullopt;
  }
  return kSmallestMs * std::exp2((*bucket + 0.5) / kBucketsPerOctave);
}

std::optional<uint64_t> ValueQuantile(const std::map<uint64_t, uint64_t>& counts, double q) {
  return QuantileOf(counts, q);
}

}  // namespace monsoon
