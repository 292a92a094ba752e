// A rate that the coordinator reduces (PlateauSchedule).
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/shard/shard_fixture.h"

namespace monsoon {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::StatusIs;

class ShardRateTest : public ShardTest {
 protected:
  void SetUp() override {
    request_.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
    PlateauSchedule* const plateau =
        request_.mutable_optimizer()->mutable_schedule()->mutable_plateau();
    plateau->set_factor(0.25);
    plateau->set_reductions(1);
    ShardTest::SetUp();
  }
  absl::Status Reduce(uint32_t reductions, const std::string& job = "job-1", uint64_t term = 0) {
    ReduceRateRequest request;
    request.set_job(job);
    request.set_term(term);
    request.set_reductions(reductions);
    return shard_.ReduceRate(request);
  }
  // How far a gradient of 1 moves the stripe's first parameter.
  float Move(uint32_t stripe, uint64_t sequence) {
    const float before = Parameters()[stripe * kStripe];
    EXPECT_EQ(PushOne(MakePush(stripe, sequence), Vector(kStripe, 1.0f)).verdict(), APPLIED);
    return before - Parameters()[stripe * kStripe];
  }
};

TEST_F(ShardRateTest, PushesFollowItAndItNeverGoesBack) {
  EXPECT_NEAR(Move(0, 1), 0.25, 1e-6);
  EXPECT_EQ(Status().rate_reductions(), 1u);
  ASSERT_OK(Reduce(2));
  EXPECT_NEAR(Move(0, 2), 0.0625, 1e-6);
  EXPECT_NEAR(Move(3, 1), 0.0625, 1e-6);
  ASSERT_OK(Reduce(1));
  EXPECT_NEAR(Move(0, 3), 0.0625, 1e-6);
  EXPECT_EQ(Status().rate_reductions(), 2u);
}

TEST_F(ShardRateTest, WhoeverMayNotIsRefused) {
  EXPECT_THAT(Reduce(2, "job-2"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job-2")));
  ASSERT_OK(Reduce(2, "job-1", 5));
  EXPECT_THAT(Reduce(3, "job-1", 4), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  CreateShardJobRequest other = request_;
  other.set_job("plain");
  other.mutable_optimizer()->clear_schedule();
  other.set_term(5);
  ASSERT_OK(shard_.CreateJob(other));
  EXPECT_THAT(Reduce(2, "plain", 5), StatusIs(absl::StatusCode::kFailedPrecondition,
                                              HasSubstr("no optimizer.schedule.plateau")));
}

}  // namespace
}  // namespace monsoon
