#include "common/model/fragment_map.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Each of 32 floats, two lines.
ParameterLayout LayoutOf(const std::vector<std::string>& names) {
  Model model;
  for (const std::string& name : names) {
    ModelTensor* const tensor = model.add_tensor();
    tensor->set_name(name);
    tensor->add_shape(32);
  }
  return *ParameterLayout::Create(model);
}

Fragments Of(uint32_t count, Fragments::Order order) {
  Fragments fragments;
  fragments.set_count(count);
  fragments.set_order(order);
  return fragments;
}

std::vector<uint32_t> FragmentsOf(const FragmentMap& fragments, const ShardMap& map) {
  std::vector<uint32_t> all;
  for (uint32_t shard = 0; shard < map.shards(); ++shard) {
    for (uint32_t stripe = 0; stripe < map.stripes(shard); ++stripe) {
      all.push_back(fragments.Of(shard, stripe));
    }
  }
  return all;
}

TEST(FragmentMapTest, ALayerIsNamedUpToItsFirstNumber) {
  const ParameterLayout layout = LayoutOf({"wte.weight", "h.0.attn.weight", "h.0.attn.bias",
                                           "h.1.mlp.0.weight", "h.1.mlp.1.weight", "ln/weight"});
  const ShardMap map = *ShardMap::Create(layout.size(), 2, 64);
  const auto fragments = FragmentMap::Create(Of(3, Fragments::BY_LAYER), layout, map);
  ASSERT_TRUE(fragments.ok()) << fragments.status();
  // wte 0, h.0 1, h.1 2, ln 3 mod 3; a stripe is half a tensor.
  EXPECT_THAT(FragmentsOf(*fragments, map), ElementsAre(0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0));
  ASSERT_EQ(fragments->Runs(0, 0).size(), 1u);
  EXPECT_EQ(fragments->Runs(0, 0)[0].end, 2u);
  EXPECT_TRUE(fragments->Runs(1, 1).empty());
  ASSERT_EQ(fragments->Slices(0).size(), 2u);
  EXPECT_EQ(fragments->Slices(0)[1].begin, 160u);
  EXPECT_EQ(fragments->Slices(0)[1].end, 192u);
}

TEST(FragmentMapTest, AStripeIsOfTheLayerThatMostOfItIsOf) {
  Model model;
  for (const auto& [name, size] : {std::pair("a/weight", 16), {"b/weight", 48}, {"c/weight", 64}}) {
    ModelTensor* const tensor = model.add_tensor();
    tensor->set_name(name);
    tensor->add_shape(static_cast<uint32_t>(size));
  }
  const ParameterLayout layout = *ParameterLayout::Create(model);
  const ShardMap map = *ShardMap::Create(layout.size(), 1, 256);  // two stripes of 64 floats
  const auto fragments = FragmentMap::Create(Of(2, Fragments::BY_LAYER), layout, map);
  ASSERT_TRUE(fragments.ok()) << fragments.status();
  EXPECT_THAT(FragmentsOf(*fragments, map), ElementsAre(1, 0));
}

TEST(FragmentMapTest, ByStripeThroughAllShards) {
  const ParameterLayout layout = LayoutOf({"a", "b", "c"});
  const ShardMap map = *ShardMap::Create(layout.size(), 2, 64);
  const auto fragments = FragmentMap::Create(Of(2, Fragments::BY_STRIPE), layout, map);
  ASSERT_TRUE(fragments.ok()) << fragments.status();
  EXPECT_THAT(FragmentsOf(*fragments, map), ElementsAre(0, 1, 0, 1, 0, 1));
}

TEST(FragmentMapTest, AFragmentWithoutStripesIsAnError) {
  const ParameterLayout layout = LayoutOf({"a/w", "b/w", "c/w"});
  const ShardMap map = *ShardMap::Create(layout.size(), 1, 1024);
  const auto fragments = FragmentMap::Create(Of(2, Fragments::BY_LAYER), layout, map);
  EXPECT_THAT(
      fragments.status().message(),
      HasSubstr("fragment 1 of 2 would have no stripe: the model has 3 layers and 1 stripes"));
}

TEST(FragmentMapTest, PushesAndSequences) {
  const ParameterLayout layout = LayoutOf({"a", "b", "c"});
  const ShardMap map = *ShardMap::Create(layout.size(), 1, 64);
  const FragmentMap fragments = *FragmentMap::Create(Of(3, Fragments::BY_STRIPE), layout, map);
  // push      1 2 3 4 5
  // fragment  0 1 2 0 1
  // sequence  1 1 1 2 2
  EXPECT_EQ(fragments.OfPush(4), 0u);
  EXPECT_EQ(fragments.SequenceOf(3), 1u);
  EXPECT_EQ(fragments.SequenceOf(4), 2u);
  EXPECT_EQ(fragments.PushOf(1, 2), 5u);
  // Fragment 1 has only its first push, 2: it lacks none before 5.
  EXPECT_EQ(fragments.PushesBefore(1, 1), 4u);
  EXPECT_EQ(fragments.PushesBefore(0, 0), 0u);
  EXPECT_EQ(fragments.PushesBefore(2, 0), 2u);
}

TEST(FragmentMapTest, AWholeModelIsOneFragment) {
  const ShardMap map = *ShardMap::Create(64, 2, 64);
  const FragmentMap whole = FragmentMap::Whole(map);
  EXPECT_TRUE(whole.whole());
  ASSERT_EQ(whole.Runs(0, 1).size(), 1u);
  EXPECT_EQ(whole.Runs(0, 1)[0].end, 2u);
  ASSERT_EQ(whole.Slices(0).size(), 1u);
  EXPECT_EQ(whole.Slices(0)[0].end, 64u);
  EXPECT_EQ(whole.SequenceOf(7), 7u);
  EXPECT_EQ(whole.PushesBefore(0, 7), 7u);
}

}  // namespace
}  // namespace monsoon
