#include "worker/downpour/fetch_plan.h"

#include <optional>

#include "common/model/shard_map.h"
#include "common/testing/status_matchers.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

// Two stripes, each a fragment.
FragmentMap TwoFragments() {
  Model model;
  ModelTensor* const tensor = model.add_tensor();
  tensor->set_name("w");
  tensor->add_shape(32);
  const ParameterLayout layout = *ParameterLayout::Create(model);
  Fragments fragments;
  fragments.set_count(2);
  fragments.set_order(Fragments::BY_STRIPE);
  return *FragmentMap::Create(fragments, layout, *ShardMap::Create(layout.size(), 1, 64));
}

// A push of what was made so far, which the shards have.
void PushAndEnd(FetchPlan* plan, uint64_t push) {
  plan->Push();
  plan->EndPush(/*brought=*/false);
  plan->NotePushed(push);
}

TEST(FetchPlanTest, AFetchIsDueFromABoundaryUntilItBegins) {
  FetchPlan plan({});
  plan.BeginRound(/*boundary=*/false, /*pushing=*/false);
  EXPECT_FALSE(plan.due());
  plan.BeginRound(true, false);
  plan.BeginRound(false, false);
  EXPECT_TRUE(plan.due());
  EXPECT_EQ(plan.next(), std::nullopt);
  plan.SetDue(false);
  EXPECT_FALSE(plan.due());
}

TEST(FetchPlanTest, OneFetchIsInFlightAndNoneBesideAPushThatHoldsItUp) {
  FetchPlan plan({});
  EXPECT_TRUE(plan.MayBegin(/*fetching=*/false, /*held_up=*/false));
  EXPECT_FALSE(plan.MayBegin(true, false));
  EXPECT_FALSE(plan.MayBegin(false, true));
}

TEST(FetchPlanTest, WhatComesWithAPushIsTheBoundarysFetch) {
  FetchPlan plan({});
  EXPECT_TRUE(plan.MayComeWithPush(/*boundary=*/true, /*fetching=*/false));
  EXPECT_FALSE(plan.MayComeWithPush(true, true));
  EXPECT_FALSE(plan.MayComeWithPush(false, false));
  plan.ComeWithPush();
  EXPECT_FALSE(plan.MayBegin(false, false));  // the back is the push's
  plan.BeginRound(true, true);
  EXPECT_FALSE(plan.due());
  plan.EndPush(/*brought=*/true);
  EXPECT_FALSE(plan.due());
  EXPECT_TRUE(plan.MayBegin(false, false));
}

TEST(FetchPlanTest, WhatDidNotComeWithThePushIsDue) {
  FetchPlan plan({});
  plan.ComeWithPush();
  plan.EndPush(/*brought=*/false);
  EXPECT_TRUE(plan.due());
}

TEST(FetchPlanTest, InTurnNothingIsDueButIsMadeAtTheBoundary) {
  FetchPlan plan({.overlapped = false});
  EXPECT_TRUE(plan.IsDueInTurn(true, false));
  EXPECT_FALSE(plan.IsDueInTurn(false, false));
  plan.StartAnew();
  EXPECT_FALSE(plan.due());
  EXPECT_TRUE(plan.IsDueInTurn(false, false));  // no round without it
  EXPECT_TRUE(plan.Land(std::nullopt));
  EXPECT_FALSE(plan.IsDueInTurn(false, false));
}

TEST(FetchPlanTest, FragmentsAreFetchedInTheOrderOfTheirPushesEachOnce) {
  FetchPlan plan({.fragments = TwoFragments()});
  EXPECT_EQ(plan.next(), std::nullopt);  // first all
  EXPECT_TRUE(plan.Land(std::nullopt));
  plan.BeginRound(true, false);
  EXPECT_FALSE(plan.due());  // nothing was pushed
  PushAndEnd(&plan, 1);
  PushAndEnd(&plan, 2);
  plan.BeginRound(true, false);
  EXPECT_TRUE(plan.due());
  EXPECT_EQ(plan.next(), 0u);
  EXPECT_TRUE(plan.IsUnlanded(0));
  plan.SetDue(false);
  EXPECT_TRUE(plan.Land(0));
  EXPECT_FALSE(plan.IsUnlanded(0));
  EXPECT_TRUE(plan.due());  // the next one
  EXPECT_EQ(plan.next(), 1u);
  plan.SetDue(false);
  EXPECT_TRUE(plan.Land(1));
  EXPECT_FALSE(plan.due());
}

TEST(FetchPlanTest, AfterAGivenUpPushOnlyAWholeFetchLands) {
  FetchPlan plan({.fragments = TwoFragments()});
  EXPECT_TRUE(plan.Land(std::nullopt));
  EXPECT_TRUE(plan.keeps_steps());
  PushAndEnd(&plan, 1);
  plan.StartAnew();
  EXPECT_TRUE(plan.due());
  EXPECT_TRUE(plan.must_land());
  EXPECT_FALSE(plan.keeps_steps());
  EXPECT_EQ(plan.next(), std::nullopt);
  EXPECT_FALSE(plan.Land(0));  // it was under way
  EXPECT_TRUE(plan.must_land());
  EXPECT_TRUE(plan.Land(std::nullopt));
  EXPECT_FALSE(plan.must_land());
  EXPECT_TRUE(plan.keeps_steps());
  EXPECT_FALSE(plan.IsUnlanded(0));  // all has landed
}

TEST(FetchPlanTest, AWholeFetchAfterAFlushKeepsTheSteps) {
  FetchPlan plan({.fragments = TwoFragments()});
  EXPECT_TRUE(plan.Land(std::nullopt));
  PushAndEnd(&plan, 1);
  PushAndEnd(&plan, 2);
  plan.FetchWhole();
  EXPECT_EQ(plan.next(), std::nullopt);
  EXPECT_TRUE(plan.keeps_steps());
  EXPECT_FALSE(plan.must_land());
}

TEST(FetchPlanTest, ALandingComesSoManyRoundsAfterThePush) {
  FetchPlan plan({.landing_steps = 2});
  EXPECT_TRUE(plan.Land(std::nullopt));
  plan.EndRound();
  PushAndEnd(&plan, 1);
  plan.BeginRound(true, false);
  EXPECT_TRUE(plan.LandsLater());
  EXPECT_FALSE(plan.IsLate(/*fetching=*/false, /*any=*/true));
  plan.EndRound();
  EXPECT_TRUE(plan.LandsLater());
  plan.EndRound();
  EXPECT_FALSE(plan.LandsLater());
  EXPECT_TRUE(plan.IsLate(false, true));
  EXPECT_FALSE(plan.IsLate(false, false));  // what lands first is waited for anyway
  plan.SetDue(false);
  EXPECT_TRUE(plan.IsLate(/*fetching=*/true, true));
  EXPECT_FALSE(plan.IsLate(false, true));  // it has landed
}

TEST(FetchPlanTest, WhatMustLandDoesNotWaitForItsRound) {
  FetchPlan plan({.landing_steps = 5});
  plan.Push();
  EXPECT_TRUE(plan.LandsLater());
  plan.MustLand();
  EXPECT_FALSE(plan.LandsLater());
}

TEST(FetchPlanTest, RoundsWithoutAShardAreBounded) {
  FetchPlan plan({.away_steps = 3});
  EXPECT_FALSE(plan.GoesOnWithoutShard(2, /*any=*/false));
  EXPECT_TRUE(plan.GoesOnWithoutShard(2, true));
  EXPECT_TRUE(plan.GoesOnWithoutShard(2, true));
  EXPECT_FALSE(plan.GoesOnWithoutShard(2, true));
  plan.AllShardsAreThere();
  EXPECT_TRUE(plan.GoesOnWithoutShard(2, true));
  FetchPlan in_turn({.overlapped = false});
  EXPECT_FALSE(in_turn.GoesOnWithoutShard(1, true));
}

}  // namespace
}  // namespace monsoon
