// A shard whose optimizer has groups of tensors.
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/shard/shard_fixture.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

constexpr size_t kFirst = 160;           // dense1's floats, with which a stripe ends in its middle
constexpr size_t kSecond = kFirst + 90;  // and dense2's; padding follows

class ShardGroupsTest : public ShardTest {
 protected:
  void SetUp() override {
    request_.mutable_model()->mutable_layer(0)->mutable_dense()->set_units(10);
    Dense* const second = request_.mutable_model()->add_layer()->mutable_dense();
    second->set_units(9);
    second->set_no_bias(true);
    request_.set_layout_hash(ParameterLayout::Create(request_.model())->Hash());
    request_.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
  }
  OptimizerGroup* AddGroup(const std::string& tensors) {
    OptimizerGroup* const group = request_.mutable_optimizer()->add_group();
    group->add_tensors(tensors);
    return group;
  }
  // How far a gradient of 1 moves each parameter.
  Vector Moves() {
    const Vector before = Parameters();
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      Vector ones(kStripe, 0.0f);
      for (size_t i = 0; i < kStripe && stripe * kStripe + i < kSecond; ++i) ones[i] = 1.0f;
      EXPECT_EQ(PushOne(MakePush(stripe, 1), ones).verdict(), APPLIED);
    }
    Vector moves = Parameters();
    for (size_t i = 0; i < moves.size(); ++i) moves[i] -= before[i];
    return moves;
  }
};

TEST_F(ShardGroupsTest, EachTensorMovesAsItsGroupSays) {
  AddGroup("dense1/*")->set_rate(0.25);
  AddGroup("*")->set_frozen(true);
  ShardTest::SetUp();
  const Vector moves = Moves();
  for (size_t i = 0; i < kFloats; ++i) {
    EXPECT_NEAR(moves[i], i < kFirst ? -0.25f : 0.0f, 1e-6) << i;
  }
}

TEST_F(ShardGroupsTest, WhatNoGroupNamesIsTheOptimizers) {
  AddGroup("dense2/weight")->set_rate_factor(0.5);
  ShardTest::SetUp();
  const Vector moves = Moves();
  for (size_t i = 0; i < kFloats; ++i) {
    EXPECT_NEAR(moves[i], i < kFirst ? -1.0f : i < kSecond ? -0.5f : 0.0f, 1e-6) << i;
  }
}

TEST_F(ShardGroupsTest, AGroupThatCannotBeMakesNoJob) {
  AddGroup("dense1/*")->set_beta1(0.5);
  EXPECT_THAT(shard_.CreateJob(request_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("optimizer.group[0].beta1: sgd has no beta1")));
}

}  // namespace
}  // namespace monsoon
