// Slices that are made from those of another job on the same shard.
#include <span>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/shard_checkpoint.pb.h"
#include "proto/wire_format.pb.h"
#include "ps_server/shard/shard_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class ShardTakeOverTest : public ShardTest {
 protected:
  void SetUp() override {
    ShardTest::SetUp();
    for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
      for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
        ASSERT_EQ(PushOne(MakePush(stripe, sequence), Vector(kStripe, 0.25f)).verdict(), APPLIED);
      }
    }
  }
  // Of the job that goes on from job-1.
  CreateShardJobRequest Next() const {
    CreateShardJobRequest next = request_;
    next.set_job("job-2");
    next.set_written_by_client(true);
    next.mutable_source()->set_job("job-1");
    return next;
  }
  StripeRecord RecordOf(const std::string& job, uint32_t stripe) {
    AlignedFloats parameters(kStripe), state(kStripe);
    return shard_.FindJob(job)->stripes()->at(stripe).Cut(parameters.span(), state.span());
  }
};

TEST_F(ShardTakeOverTest, HasParametersStateAndVersionsOfTheOther) {
  ASSERT_OK_AND_ASSIGN(const CreateShardJobReply made, shard_.CreateJob(Next()));
  EXPECT_TRUE(made.from_source());
  EXPECT_EQ(Snapshot("job-2"), Snapshot("job-1"));
  EXPECT_EQ(RecordOf("job-2", 0).version(), 3u);
  ASSERT_OK_AND_ASSIGN(const CreateShardJobReply again, shard_.CreateJob(Next()));
  EXPECT_TRUE(again.from_source()) << "a call that is repeated";
  CreateShardJobRequest zeros = Next();
  zeros.set_job("job-3");
  zeros.clear_source();
  ASSERT_OK_AND_ASSIGN(const CreateShardJobReply empty, shard_.CreateJob(zeros));
  EXPECT_FALSE(empty.from_source());
}

TEST_F(ShardTakeOverTest, WhatBecomesOfOneIsNotTheOthers) {
  ASSERT_OK(shard_.CreateJob(Next()));
  const std::string taken = Snapshot("job-2");
  ASSERT_EQ(PushOne(MakePush(0, 4), Vector(kStripe, 0.25f)).verdict(), APPLIED);
  EXPECT_EQ(Snapshot("job-2"), taken);
  ASSERT_OK(shard_.DeleteJob("job-1"));
  EXPECT_EQ(Snapshot("job-2"), taken);
}

TEST_F(ShardTakeOverTest, StateOfAnotherOptimizerStaysBehind) {
  CreateShardJobRequest next = Next();
  next.mutable_optimizer()->mutable_momentum()->set_rate(0.1);
  ASSERT_OK(shard_.CreateJob(next));
  CreateShardJobRequest fresh = next;
  fresh.set_job("job-3");
  fresh.clear_source();
  ASSERT_OK(shard_.CreateJob(fresh));
  AlignedFloats parameters(kStripe), state(kStripe), initial(kStripe), unused(kStripe);
  shard_.FindJob("job-2")->stripes()->at(1).Cut(parameters.span(), state.span());
  shard_.FindJob("job-3")->stripes()->at(1).Cut(unused.span(), initial.span());
  EXPECT_THAT(state.span(), ElementsAreArray(initial.span()));
  const Vector all = Parameters();
  EXPECT_THAT(parameters.span(), ElementsAreArray(std::span(all).subspan(kStripe, kStripe)));
}

// Steps of an optimizer are those that had a gradient; one that begins anew has taken none of them.
TEST_F(ShardTakeOverTest, PushesWithoutATensorAreCountedWithTheState) {
  PushRequest push = MakePush(2, 4);
  push.add_absent(0);
  ASSERT_EQ(PushOne(push, Vector(kStripe, 0.25f)).verdict(), APPLIED);
  CreateShardJobRequest other = Next();
  other.set_job("job-3");
  other.mutable_optimizer()->mutable_momentum()->set_rate(0.1);
  ASSERT_OK(shard_.CreateJob(Next()));
  ASSERT_OK(shard_.CreateJob(other));
  EXPECT_EQ(RecordOf("job-1", 2).absent_size(), 1);
  ASSERT_EQ(RecordOf("job-2", 2).absent_size(), 1);
  EXPECT_EQ(RecordOf("job-2", 2).absent(0).pushes(), 1u);
  EXPECT_EQ(RecordOf("job-2", 2).version(), 4u);
  EXPECT_EQ(RecordOf("job-2", 1).absent_size(), 0);
  EXPECT_EQ(RecordOf("job-3", 2).absent_size(), 0);
}

// A round's sum and a public copy are the new job's own.
TEST_F(ShardTakeOverTest, WhatLiesBehindTheOptimizersStateBeginsAnew) {
  CreateShardJobRequest next = Next();
  next.mutable_rounds()->set_quorum(1);
  next.set_fetch_changes(INT4);
  ASSERT_OK(shard_.CreateJob(next));
  CreateShardJobRequest after = Next();
  after.set_job("job-3");
  after.mutable_source()->set_job("job-2");
  ASSERT_OK(shard_.CreateJob(after));
  EXPECT_EQ(Snapshot("job-3"), Snapshot("job-1"));
}

TEST_F(ShardTakeOverTest, OneThatIsNotThereIsNamed) {
  CreateShardJobRequest next = Next();
  next.mutable_source()->set_job_term(5);
  EXPECT_THAT(shard_.CreateJob(next).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("job job-2"), HasSubstr("no job \"job-1\""))));
  EXPECT_EQ(shard_.FindJob("job-2"), nullptr);
}

TEST_F(ShardTakeOverTest, OneOfAnotherLayoutIsRefused) {
  CreateShardJobRequest next = Next();
  next.mutable_model()->mutable_layer(0)->mutable_dense()->set_no_bias(false);
  next.set_layout_hash(ParameterLayout::Create(next.model())->Hash());
  EXPECT_THAT(shard_.CreateJob(next).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("of another layout")));
}

TEST_F(ShardTakeOverTest, OneThatIsCutInAnotherWayIsRefused) {
  CreateShardJobRequest next = Next();
  next.set_max_stripe_bytes(kStripe * 8);
  EXPECT_THAT(shard_.CreateJob(next).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has 2 stripes")));
  EXPECT_EQ(shard_.FindJob("job-2"), nullptr);
}

}  // namespace
}  // namespace monsoon
