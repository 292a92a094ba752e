// ShardMap: cuts a flat vector into one contiguous slice a shard, and each
// slice into stripes, the unit of lock, version and dedup. Computed the same
// way by every process from (size, shards, max_stripe_bytes).
//
// Invariants: slices are contiguous, in order and cover [0, size); every shard
// has at least one stripe; all stripes have stripe_floats() floats, a multiple
// of kAlignmentFloats, but for the last one of the last shard; slices are
// equal to within one stripe.
//
// A few numbers, whatever the sizes: a peer may name any.
//
// Thread safety: immutable.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace monsoon {

inline constexpr uint64_t kMaxStripeBytes = 1 << 20;

// What a shard keeps beside the floats, at most: of each stripe (lock, version,
// header for readers, place in the sums), and of a job (counters, its model's
// description apart).
inline constexpr uint64_t kStripeOverheadBytes = 1536;
inline constexpr uint64_t kJobOverheadBytes = 48 << 10;

struct Slice {
  uint64_t begin = 0;  // flat float indices [begin, end)
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
};

class ShardMap {
 public:
  // InvalidArgument when there are more shards than 64-byte lines, or
  // max_stripe_bytes is not a positive multiple of 64 up to kMaxStripeBytes.
  static absl::StatusOr<ShardMap> Create(uint64_t size, uint32_t shards,
                                         uint64_t max_stripe_bytes = kMaxStripeBytes);

  uint32_t shards() const { return shards_; }
  uint64_t size() const { return size_; }
  uint64_t stripe_floats() const { return stripe_floats_; }

  // The slice of shard `shard`.
  Slice shard(uint32_t shard) const;
  // Stripes of one shard.
  uint32_t stripes(uint32_t shard) const {
    return static_cast<uint32_t>(FirstStripe(uint64_t{shard} + 1) - FirstStripe(shard));
  }
  // Stripe `stripe` of shard `shard`, in global flat indices.
  Slice stripe(uint32_t shard, uint32_t stripe) const;

 private:
  // Of `shard` <= shards(), in global stripe numbers.
  uint64_t FirstStripe(uint64_t shard) const;

  uint64_t size_ = 0;
  uint64_t stripe_floats_ = 0;
  uint64_t all_stripes_ = 0;
  uint32_t shards_ = 0;
};

}  // namespace monsoon
