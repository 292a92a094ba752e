#include "common/model/stripe_versions.h"

#include <algorithm>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;

ShardMap Map(uint64_t lines, uint32_t shards, uint64_t lines_per_stripe) {
  return *ShardMap::Create(lines * 16, shards, lines_per_stripe * 64);
}

// A different version for each stripe.
StripeVersions Numbered(const ShardMap& map) {
  StripeVersions versions(map.shards());
  uint64_t next = 1;
  for (uint32_t shard = 0; shard < map.shards(); ++shard) {
    for (uint32_t stripe = 0; stripe < map.stripes(shard); ++stripe) {
      versions[shard].push_back(next * 37 % 101);
      ++next;
    }
  }
  return versions;
}

// By looking at every float.
StripeVersions OneByOne(const ShardMap& to, const ShardMap& from, const StripeVersions& versions) {
  std::vector<uint64_t> at(from.size());
  for (uint32_t shard = 0; shard < from.shards(); ++shard) {
    for (uint32_t stripe = 0; stripe < from.stripes(shard); ++stripe) {
      const Slice slice = from.stripe(shard, stripe);
      std::fill(at.begin() + static_cast<ptrdiff_t>(slice.begin),
                at.begin() + static_cast<ptrdiff_t>(slice.end), versions[shard][stripe]);
    }
  }
  StripeVersions result(to.shards());
  for (uint32_t shard = 0; shard < to.shards(); ++shard) {
    for (uint32_t stripe = 0; stripe < to.stripes(shard); ++stripe) {
      const Slice slice = to.stripe(shard, stripe);
      result[shard].push_back(*std::max_element(at.begin() + static_cast<ptrdiff_t>(slice.begin),
                                                at.begin() + static_cast<ptrdiff_t>(slice.end)));
    }
  }
  return result;
}

TEST(StripeVersionsTest, TheMaximumOfWhatIsOverlapped) {
  // Stripes of 4 lines on 2 shards: [0 4)[4 8) | [8 12)[12 14).
  const ShardMap two = Map(14, 2, 4);
  ASSERT_EQ(two.stripes(1), 2u);
  const StripeVersions versions = {{10, 20}, {30, 7}};
  EXPECT_EQ(VersionsOn(two, two, versions), versions);
  // One stripe each: [0 5) [5 10) [10 14).
  const ShardMap three = Map(14, 3, 5);
  ASSERT_EQ(three.stripes(0), 1u);
  EXPECT_THAT(VersionsOn(three, two, versions),
              ElementsAre(ElementsAre(20), ElementsAre(30), ElementsAre(30)));
  const ShardMap one = Map(14, 1, 14);
  EXPECT_THAT(VersionsOn(one, two, versions), ElementsAre(ElementsAre(30)));
  // Smaller stripes have the version of what they came from.
  const ShardMap fine = Map(14, 1, 2);
  EXPECT_THAT(VersionsOn(fine, two, versions), ElementsAre(ElementsAre(10, 10, 20, 20, 30, 30, 7)));
}

TEST(StripeVersionsTest, AnyCutAgainstEveryFloat) {
  constexpr uint64_t kLines = 97;
  for (const uint32_t from_shards : {1u, 2u, 3u, 7u, 97u}) {
    for (const uint64_t from_lines : {1u, 3u, 10u, 64u}) {
      const ShardMap from = Map(kLines, from_shards, from_lines);
      const StripeVersions versions = Numbered(from);
      for (const uint32_t to_shards : {1u, 2u, 3u, 16u, 97u}) {
        for (const uint64_t to_lines : {1u, 4u, 9u, 97u}) {
          const ShardMap to = Map(kLines, to_shards, to_lines);
          const StripeVersions got = VersionsOn(to, from, versions);
          EXPECT_TRUE(FitsMap(got, to));
          EXPECT_EQ(got, OneByOne(to, from, versions));
        }
      }
    }
  }
}

TEST(StripeVersionsTest, KnowsWhichMapTheyAreOf) {
  const ShardMap map = Map(14, 2, 4);
  EXPECT_TRUE(FitsMap({{1, 2}, {3, 4}}, map));
  EXPECT_FALSE(FitsMap({{1, 2}, {3}}, map));
  EXPECT_FALSE(FitsMap({{1, 2}, {3, 4}, {}}, map));
  EXPECT_FALSE(FitsMap({}, map));
}

}  // namespace
}  // namespace monsoon
