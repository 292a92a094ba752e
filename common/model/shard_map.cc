#include "common/model/shard_map.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/model/parameter_layout.h"

namespace monsoon {
namespace {

uint64_t CeilDivide(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace

absl::StatusOr<ShardMap> ShardMap::Create(uint64_t size, uint32_t shards,
                                          uint64_t max_stripe_bytes) {
  constexpr uint64_t kLineBytes = kAlignmentFloats * sizeof(float);
  if (max_stripe_bytes == 0 || max_stripe_bytes % kLineBytes != 0 ||
      max_stripe_bytes > kMaxStripeBytes) {
    return absl::InvalidArgumentError(absl::StrCat("stripe size ", max_stripe_bytes,
                                                   " is not a multiple of 64 bytes up to ",
                                                   kMaxStripeBytes));
  }
  if (size == 0 || size % kAlignmentFloats != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a parameter vector of ", size, " floats is not whole 64-byte lines"));
  }
  const uint64_t lines = size / kAlignmentFloats;
  if (shards == 0 || shards > lines) {
    return absl::InvalidArgumentError(
        absl::StrCat(shards, " shards for a model of ", lines,
                     " 64-byte lines: every shard needs at least one line; use fewer ps tasks"));
  }
  // The largest stripe that still gives every shard one: with more stripes
  // than shards, contiguous runs of floor or ceil(stripes / shards) differ by
  // one stripe at most.
  uint64_t lines_per_stripe = std::min(max_stripe_bytes / kLineBytes, CeilDivide(lines, shards));
  while (CeilDivide(lines, lines_per_stripe) < shards) {
    --lines_per_stripe;
  }
  ShardMap map;
  map.size_ = size;
  map.stripe_floats_ = lines_per_stripe * kAlignmentFloats;
  const uint64_t stripes = CeilDivide(lines, lines_per_stripe);
  for (uint64_t shard = 0; shard <= shards; ++shard) {
    map.first_stripe_.push_back(stripes * shard / shards);
  }
  return map;
}

Slice ShardMap::shard(uint32_t shard) const {
  return Slice{first_stripe_[shard] * stripe_floats_,
               std::min(size_, first_stripe_[shard + 1] * stripe_floats_)};
}

Slice ShardMap::stripe(uint32_t shard, uint32_t stripe) const {
  const uint64_t begin = (first_stripe_[shard] + stripe) * stripe_floats_;
  return Slice{begin, std::min(size_, begin + stripe_floats_)};
}

}  // namespace monsoon
