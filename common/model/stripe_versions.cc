#include "common/model/stripe_versions.h"

#include <algorithm>

#include "common/base/check.h"

namespace monsoon {
namespace {

// A stripe's place in the vector, and its version.
struct Versioned {
  Slice slice;
  uint64_t version = 0;
};

// In the vector's order.
std::vector<Versioned> Flatten(const ShardMap& map, const StripeVersions& versions) {
  std::vector<Versioned> stripes;
  for (uint32_t shard = 0; shard < map.shards(); ++shard) {
    for (uint32_t stripe = 0; stripe < map.stripes(shard); ++stripe) {
      stripes.push_back({map.stripe(shard, stripe), versions[shard][stripe]});
    }
  }
  return stripes;
}

}  // namespace

bool FitsMap(const StripeVersions& versions, const ShardMap& map) {
  bool fits = versions.size() == map.shards();
  for (uint32_t shard = 0; fits && shard < map.shards(); ++shard) {
    fits = versions[shard].size() == map.stripes(shard);
  }
  return fits;
}

StripeVersions VersionsOn(const ShardMap& to, const ShardMap& from,
                          const StripeVersions& versions) {
  CHECK_EQ(to.size(), from.size());
  CHECK(FitsMap(versions, from));
  const std::vector<Versioned> old = Flatten(from, versions);
  StripeVersions result(to.shards());
  size_t first = 0;  // the first old stripe that ends behind the new one's begin
  for (uint32_t shard = 0; shard < to.shards(); ++shard) {
    for (uint32_t stripe = 0; stripe < to.stripes(shard); ++stripe) {
      const Slice slice = to.stripe(shard, stripe);
      while (old[first].slice.end <= slice.begin) {
        ++first;
      }
      uint64_t version = 0;
      for (size_t i = first; i < old.size() && old[i].slice.begin < slice.end; ++i) {
        version = std::max(version, old[i].version);
      }
      result[shard].push_back(version);
    }
  }
  return result;
}

}  // namespace monsoon
