// Settings that change while a job trains (JobService.Set).
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "ps_server/shard/shard_fixture.h"
#include "ps_server/shard/shard_job_plan.h"

namespace monsoon {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::StatusIs;

class ShardSettingsTest : public ShardTest {
 protected:
  void SetUp() override {
    request_.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
    ShardTest::SetUp();
  }
  ChangeSettingsRequest Change(uint64_t revision, double rate) {
    ChangeSettingsRequest request;
    request.set_job("job-1");
    request.set_revision(revision);
    *request.mutable_optimizer() = request_.optimizer();
    request.mutable_optimizer()->mutable_sgd()->set_rate(rate);
    return request;
  }
  // How far a gradient of 1 moves the stripe's first parameter.
  float Move(uint32_t stripe, uint64_t sequence) {
    return Move(stripe, MakePush(stripe, sequence));
  }
  float Move(uint32_t stripe, const PushRequest& push) {
    const float before = Parameters()[stripe * kStripe];
    EXPECT_EQ(PushOne(push, Vector(kStripe, 1.0f)).verdict(), APPLIED);
    return before - Parameters()[stripe * kStripe];
  }
};

TEST_F(ShardSettingsTest, PushesFollowARateAtOnceAndTheShardTellsFromWhichOn) {
  EXPECT_NEAR(Move(0, 1), 1.0, 1e-6);
  EXPECT_NEAR(Move(0, 2), 1.0, 1e-6);
  EXPECT_EQ(Status().settings_revision(), 0u);
  const auto changed = shard_.ChangeSettings(Change(1, 0.25));
  ASSERT_OK(changed);
  EXPECT_EQ(changed->version(), 3u);
  EXPECT_EQ(changed->shard_epoch(), kEpoch);
  EXPECT_NEAR(Move(0, 3), 0.25, 1e-6);
  EXPECT_NEAR(Move(3, 1), 0.25, 1e-6);
  EXPECT_EQ(Status().settings_revision(), 1u);
  EXPECT_EQ(Status().settings_from(), 3u);
}

TEST_F(ShardSettingsTest, AnOldChangeThatComesLateDoesNothing) {
  ASSERT_OK(shard_.ChangeSettings(Change(2, 0.25)));
  EXPECT_NEAR(Move(0, 1), 0.25, 1e-6);
  EXPECT_EQ(shard_.ChangeSettings(Change(1, 0.5))->version(), 1u);
  EXPECT_EQ(shard_.ChangeSettings(Change(2, 0.75))->version(), 1u);
  EXPECT_NEAR(Move(0, 2), 0.25, 1e-6);
  EXPECT_EQ(Status().settings_revision(), 2u);
}

TEST_F(ShardSettingsTest, WhatTheSliceWasNotMadeForIsRefused) {
  ChangeSettingsRequest request = Change(1, 0.5);
  request.set_job("job-2");
  EXPECT_THAT(shard_.ChangeSettings(request), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(shard_.ChangeSettings(Change(0, 0.5)),
              StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(shard_.ChangeSettings(Change(1, -1)),
              StatusIs(absl::StatusCode::kInvalidArgument, _));
  request = Change(1, 0.5);
  request.mutable_optimizer()->mutable_adagrad()->set_rate(0.5);
  EXPECT_THAT(
      shard_.ChangeSettings(request),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("ps/2: job job-1: its optimizer is sgd, and cannot become adagrad")));
  request = Change(1, 0.5);
  request.mutable_optimizer()->mutable_schedule()->set_warm_up_pushes(3);
  EXPECT_THAT(shard_.ChangeSettings(request), StatusIs(absl::StatusCode::kInvalidArgument, _));
  request = Change(1, 0.5);
  request.mutable_optimizer()->mutable_average();
  EXPECT_THAT(
      shard_.ChangeSettings(request),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot become sgd with average")));
  request = Change(1, 0.5);
  request.mutable_rounds();
  EXPECT_THAT(shard_.ChangeSettings(request), StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_NEAR(Move(0, 1), 1.0, 1e-6);
  request = Change(1, 0.5);
  request.set_term(5);
  ASSERT_OK(shard_.ChangeSettings(request));
  request.set_revision(2);
  request.set_term(4);
  EXPECT_THAT(shard_.ChangeSettings(request), StatusIs(absl::StatusCode::kFailedPrecondition, _));
}

TEST_F(ShardSettingsTest, DampingAndABoundOnStalenessChangeToo) {
  EXPECT_NEAR(Move(0, 1), 1.0, 1e-6);
  EXPECT_NEAR(Move(0, 2), 1.0, 1e-6);
  ChangeSettingsRequest request = Change(1, 1.0);
  request.mutable_optimizer()->set_damping(1.0);
  ASSERT_OK(shard_.ChangeSettings(request));
  // Of base 0, and so two versions old.
  const auto push = [this](uint64_t sequence) {
    PushRequest made = MakePush(0, sequence);
    made.mutable_record(0)->set_base_shard_epoch(kEpoch);
    return made;
  };
  EXPECT_NEAR(Move(0, push(3)), 1.0 / 3, 1e-6);
  request.set_revision(2);
  request.set_drop_older_than(2);
  ASSERT_OK(shard_.ChangeSettings(request));
  EXPECT_EQ(PushOne(push(4), Vector(kStripe, 1.0f)).verdict(), DROPPED);
  request.set_revision(3);
  request.set_drop_older_than(3);
  ASSERT_OK(shard_.ChangeSettings(request));
  EXPECT_NEAR(Move(0, push(5)), 1.0 / 4, 1e-6);
}

TEST_F(ShardSettingsTest, ATensorWithAKernelOfItsOwnFollowsToo) {
  request_.set_job("grouped");
  OptimizerGroup& group = *request_.mutable_optimizer()->add_group();
  group.add_tensors("*");
  group.set_rate_factor(0.5);
  ASSERT_OK(shard_.CreateJob(request_));
  session_.set_job("grouped");
  ASSERT_OK(shard_.OpenSession(session_));
  const auto parameter = [&] {
    AlignedFloats out(kFloats);
    EXPECT_OK(shard_.FindJob("grouped")->fetches()->CopyStripes(std::nullopt, 0, kStripes, nullptr,
                                                                FLOAT32, &out));
    return out.span()[0];
  };
  const float begun = parameter();
  ASSERT_EQ(PushOne(MakePush(0, 1), Vector(kStripe, 1.0f)).verdict(), APPLIED);
  EXPECT_NEAR(begun - parameter(), 0.5, 1e-6);
  ChangeSettingsRequest request = Change(1, 0.5);
  request.set_job("grouped");
  ASSERT_OK(shard_.ChangeSettings(request));
  const float before = parameter();
  ASSERT_EQ(PushOne(MakePush(0, 2), Vector(kStripe, 1.0f)).verdict(), APPLIED);
  EXPECT_NEAR(before - parameter(), 0.25, 1e-6);
}

TEST_F(ShardSettingsTest, ASliceOfAnotherRevisionIsTheSameAndNothingElseMayDiffer) {
  CreateShardJobRequest again = request_;
  again.mutable_optimizer()->mutable_sgd()->set_rate(0.5);
  EXPECT_FALSE(IsSameSlice(request_, again));
  EXPECT_THAT(shard_.CreateJob(again), StatusIs(absl::StatusCode::kAlreadyExists, _));
  again.set_settings_revision(1);
  again.set_drop_older_than(7);
  EXPECT_TRUE(IsSameSlice(request_, again));
  EXPECT_TRUE(IsSameSlice(again, request_));
  ASSERT_OK(shard_.CreateJob(again));
  EXPECT_EQ(Status().settings_revision(), 0u);  // it is told, where it is not made anew
  again.set_seed(request_.seed() + 1);
  EXPECT_FALSE(IsSameSlice(request_, again));
  again.set_seed(request_.seed());
  again.mutable_rounds();
  EXPECT_FALSE(IsSameSlice(request_, again));
  again.clear_rounds();
  again.mutable_optimizer()->mutable_adagrad()->set_rate(0.5);
  EXPECT_FALSE(IsSameSlice(request_, again));
  again.mutable_optimizer()->mutable_sgd()->set_rate(0.25);
  again.set_job("later");
  ASSERT_OK(shard_.CreateJob(again));
  EXPECT_EQ(shard_.GetStatus({})->job(1).settings_revision(), 1u);
}

class ShardRoundSettingsTest : public ShardSettingsTest {
 protected:
  void SetUp() override {
    request_.mutable_rounds();
    ShardSettingsTest::SetUp();
    other_ = session_;
    other_.set_worker(2);
    ASSERT_OK(shard_.OpenSession(other_));
  }
  ChangeSettingsRequest Change(uint64_t revision, double rate) {
    ChangeSettingsRequest request = ShardSettingsTest::Change(revision, rate);
    request.mutable_rounds();
    return request;
  }
  // Both workers bring a difference of 1 for each stripe: how far the first parameter moves.
  float Round(uint64_t sequence) {
    const float before = Parameters()[0];
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      PushRequest push = MakePush(stripe, sequence);
      EXPECT_EQ(PushOne(push, Vector(kStripe, 1.0f)).verdict(), APPLIED);
      *push.mutable_session() = other_;
      EXPECT_EQ(PushOne(push, Vector(kStripe, 1.0f)).verdict(), APPLIED);
    }
    const Vector after = Parameters();
    return before - after[0];
  }

  SessionKey other_;
};

TEST_F(ShardRoundSettingsTest, NoRoundEndsWhileAVersionIsAgreedOn) {
  EXPECT_NEAR(Round(1), 1.0, 1e-6);
  const ChangeSettingsRequest request = Change(1, 0.5);
  ASSERT_EQ(shard_.ChangeSettings(request)->version(), 1u);
  EXPECT_NEAR(Round(2), 0.0, 1e-6);
  EXPECT_EQ(Status().version_max(), 1u);
  EXPECT_EQ(Status().settings_revision(), 0u);
  ASSERT_EQ(shard_.ChangeSettings(request)->version(), 1u);  // again
  ChangeSettingsRequest dated = request;
  dated.set_from_version(3);
  ASSERT_EQ(shard_.ChangeSettings(dated)->version(), 3u);
  // The round that was open is over, by the rate with which it began.
  EXPECT_EQ(Status().version_min(), 2u);
  EXPECT_EQ(Status().settings_revision(), 1u);
  EXPECT_EQ(Status().settings_from(), 3u);
  EXPECT_NEAR(Round(3), 0.5, 1e-6);
  EXPECT_EQ(shard_.ChangeSettings(request)->version(), 3u);  // late, and holds nothing back
  EXPECT_NEAR(Round(4), 0.5, 1e-6);
}

TEST_F(ShardRoundSettingsTest, AllStripesChangeAtTheVersionThatIsSaid) {
  ChangeSettingsRequest request = Change(1, 0.5);
  request.set_from_version(3);
  ASSERT_EQ(shard_.ChangeSettings(request)->version(), 3u);
  EXPECT_NEAR(Round(1), 1.0, 1e-6);
  // One stripe is ahead of the others.
  PushRequest push = MakePush(2, 2);
  ASSERT_EQ(PushOne(push, Vector(kStripe, 1.0f)).verdict(), APPLIED);
  *push.mutable_session() = other_;
  const float before = Parameters()[2 * kStripe];
  ASSERT_EQ(PushOne(push, Vector(kStripe, 1.0f)).verdict(), APPLIED);
  EXPECT_NEAR(before - Parameters()[2 * kStripe], 1.0, 1e-6);
  EXPECT_NEAR(Move(2, MakePush(2, 3)), 0.0, 1e-6);
  *push.mutable_session() = other_;
  push.mutable_record(0)->set_sequence(3);
  EXPECT_NEAR(Move(2, push), 0.5, 1e-6);
  PushRequest first = MakePush(0, 2);
  ASSERT_EQ(PushOne(first, Vector(kStripe, 1.0f)).verdict(), APPLIED);
  *first.mutable_session() = other_;
  EXPECT_NEAR(Move(0, first), 1.0, 1e-6);
}

TEST_F(ShardRoundSettingsTest, AQuorumHoldsForTheRoundFromWhichOnItIsSaid) {
  ChangeSettingsRequest request = Change(1, 1.0);
  request.mutable_rounds()->set_quorum(1);
  request.set_from_version(2);
  ASSERT_OK(shard_.ChangeSettings(request));
  EXPECT_NEAR(Move(0, 1), 0.0, 1e-6);  // waits for the other one
  PushRequest push = MakePush(0, 1);
  *push.mutable_session() = other_;
  EXPECT_NEAR(Move(0, push), 1.0, 1e-6);
  EXPECT_NEAR(Move(0, 2), 1.0, 1e-6);  // and here no more
}

}  // namespace
}  // namespace monsoon
