#include "common/config/earlier_job.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

// As an earlier version wrote it: the same fields beside those that have not moved.
std::string Earlier(const Downpour& rest, const EarlierLocalSteps& local) {
  return rest.SerializeAsString() + local.SerializeAsString();
}

EarlierLocalSteps All() {
  EarlierLocalSteps earlier;
  earlier.set_local_steps(48);
  earlier.mutable_inner()->mutable_adam_w()->set_rate(0.002);
  earlier.set_dynamic_local_steps(true);
  earlier.set_weight(TOKENS);
  earlier.set_weight_reference(5);
  earlier.mutable_fragments()->set_count(4);
  earlier.set_landing_steps(3);
  earlier.set_mixing(0.25);
  return earlier;
}

TEST(EarlierJobTest, EachFieldOfLocalStepsIsTakenOver) {
  Downpour rest;
  rest.set_push_format(INT4);
  rest.mutable_rounds()->set_quorum(2);
  Downpour downpour;
  ASSERT_TRUE(downpour.ParseFromString(Earlier(rest, All())));
  ASSERT_FALSE(downpour.has_local());

  TakeOverEarlierJobs(&downpour);
  const LocalSteps& local = downpour.local();
  EXPECT_EQ(local.steps(), 48u);
  EXPECT_EQ(local.inner().adam_w().rate(), 0.002);
  EXPECT_TRUE(local.dynamic());
  EXPECT_EQ(local.weight(), TOKENS);
  EXPECT_EQ(local.weight_reference(), 5);
  EXPECT_EQ(local.fragments().count(), 4u);
  EXPECT_EQ(local.landing_steps(), 3u);
  EXPECT_EQ(local.mixing(), 0.25);
  EXPECT_EQ(downpour.push_format(), INT4);
  EXPECT_EQ(downpour.rounds().quorum(), 2u);
  EXPECT_TRUE(downpour.GetReflection()->GetUnknownFields(downpour).empty());
  // A field that moves needs its line in TakeOver, and its check above.
  EXPECT_EQ(EarlierLocalSteps::descriptor()->field_count(), 8);
  EXPECT_EQ(Downpour::descriptor()->reserved_range_count(), 2);
}

TEST(EarlierJobTest, AJobIsFoundAtAnyDepth) {
  CheckpointContext context;
  context.mutable_job()->set_name("gpt");
  ASSERT_TRUE(
      context.mutable_job()->mutable_downpour()->ParseFromString(Earlier(Downpour(), All())));
  TakeOverEarlierJobs(&context);
  EXPECT_EQ(context.job().downpour().local().steps(), 48u);
  EXPECT_EQ(context.job().name(), "gpt");
}

TEST(EarlierJobTest, WhatIsOfTodayStays) {
  Downpour downpour;
  downpour.mutable_local()->set_steps(7);
  TakeOverEarlierJobs(&downpour);
  EXPECT_EQ(downpour.local().steps(), 7u);
  downpour.Clear();
  downpour.set_n_push(3);
  TakeOverEarlierJobs(&downpour);
  EXPECT_FALSE(downpour.has_local());
  EXPECT_EQ(downpour.n_push(), 3u);
}

}  // namespace
}  // namespace monsoon
