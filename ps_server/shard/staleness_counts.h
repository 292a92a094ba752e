// StalenessCounts: how often each staleness was seen, in memory of a fixed size
// whatever senders say. Values are exact below 1024; larger ones are rounded down
// to 6 significant bits.
//
// Thread safe; never waits.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

namespace monsoon {

class StalenessCounts {
 public:
  // A negative one is not known.
  void Add(int64_t staleness);
  // What a checkpoint has counted.
  void AddMany(uint64_t staleness, uint64_t count);
  void AddUnknown(uint64_t count) { unknown_.fetch_add(count, std::memory_order_relaxed); }

  // Value -> count, of those seen.
  std::map<uint64_t, uint64_t> known() const;
  uint64_t unknown() const { return unknown_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kExactBits = 10;
  static constexpr uint64_t kExact = uint64_t{1} << kExactBits;
  // Of the leading one's followers.
  static constexpr int kFractionBits = 5;
  static constexpr uint64_t kFractions = uint64_t{1} << kFractionBits;
  static constexpr size_t kBuckets = kExact + (63 - kExactBits) * kFractions;

  static size_t BucketOf(uint64_t value);
  // The least value of the bucket.
  static uint64_t ValueOf(size_t bucket);

  std::array<std::atomic<uint64_t>, kBuckets> counts_ = {};
  std::atomic<uint64_t> unknown_{0};
};

}  // namespace monsoon
