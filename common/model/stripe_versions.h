// Versions of stripes when a vector is cut in another way: a job that is resumed on
// another number of shards.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "common/model/shard_map.h"

namespace monsoon {

// [shard][stripe] of one map.
using StripeVersions = std::vector<std::vector<uint64_t>>;

// Whether there is one version for each stripe of `map`.
bool FitsMap(const StripeVersions& versions, const ShardMap& map);

// Of each stripe of `to` the maximum of the versions of those stripes of `from` that it
// overlaps. `versions` fits `from`; both maps are of one vector.
StripeVersions VersionsOn(const ShardMap& to, const ShardMap& from, const StripeVersions& versions);

}  // namespace monsoon
