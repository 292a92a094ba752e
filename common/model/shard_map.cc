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
  if (CeilDivide(CeilDivide(lines, lines_per_stripe), shards) > UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("stripes of ", max_stripe_bytes,
                                                   " bytes are too many for a model of ", lines,
                                                   " 64-byte lines on ", shards, " shards"));
  }
  ShardMap map;
  map.size_ = size;
  map.stripe_floats_ = lines_per_stripe * kAlignmentFloats;
  map.shards_ = shards;
  map.all_stripes_ = CeilDivide(lines, lines_per_stripe);
  return map;
}

uint64_t ShardMap::FirstStripe(uint64_t shard) const {
  // The product may need more than 64 bits.
  return static_cast<uint64_t>(static_cast<unsigned __int128>(all_stripes_) * shard / shards_);
}

Slice ShardMap::shard(uint32_t shard) const {
  return Slice{FirstStripe(shard) * stripe_floats_,
               std::min(size_, FirstStripe(uint64_t{shard} + 1) * stripe_floats_)};
}

Slice ShardMap::stripe(uint32_t shard, uint32_t stripe) const {
  const uint64_t begin = (FirstStripe(shard) + stripe) * stripe_floats_;
  return Slice{begin, std::min(size_, begin + stripe_floats_)};
}

}  // namespace monsoon
