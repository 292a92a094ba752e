#include "ps_server/shard/staleness_counts.h"

#include <bit>

namespace monsoon {

void StalenessCounts::Add(int64_t staleness) {
  std::atomic<uint64_t>& count =
      staleness < 0 ? unknown_ : counts_[BucketOf(static_cast<uint64_t>(staleness))];
  count.fetch_add(1, std::memory_order_relaxed);
}

void StalenessCounts::AddMany(uint64_t staleness, uint64_t count) {
  counts_[BucketOf(staleness)].fetch_add(count, std::memory_order_relaxed);
}

size_t StalenessCounts::BucketOf(uint64_t value) {
  if (value < kExact) {
    return value;
  }
  const int exponent = std::bit_width(value) - 1;
  const uint64_t fraction = (value >> (exponent - kFractionBits)) - kFractions;
  return kExact + static_cast<size_t>(exponent - kExactBits) * kFractions + fraction;
}

uint64_t StalenessCounts::ValueOf(size_t bucket) {
  if (bucket < kExact) {
    return bucket;
  }
  const uint64_t beyond = bucket - kExact;
  const int exponent = kExactBits + static_cast<int>(beyond / kFractions);
  return (kFractions + beyond % kFractions) << (exponent - kFractionBits);
}

std::map<uint64_t, uint64_t> StalenessCounts::known() const {
  std::map<uint64_t, uint64_t> known;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (const uint64_t count = counts_[bucket].load(std::memory_order_relaxed); count > 0) {
      known.emplace_hint(known.end(), ValueOf(bucket), count);
    }
  }
  return known;
}

}  // namespace monsoon
