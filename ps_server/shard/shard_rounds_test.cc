// What a shard makes of a round that is open when its job's training ends.
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/shard/shard_fixture.h"

namespace monsoon {
namespace {

class ShardRoundsTest : public ShardTest {
 protected:
  void SetUp() override {
    request_.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
    request_.mutable_rounds();
    ShardTest::SetUp();
  }
};

// A worker that does not reach this shard cannot tell it that it has nothing to push.
TEST_F(ShardRoundsTest, AMinimiserBeginsWithWhatAnOpenRoundHas) {
  SessionKey away = session_;
  away.set_worker(2);
  ASSERT_OK(shard_.OpenSession(away));
  const Vector begun = Parameters();
  for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    ASSERT_EQ(PushOne(MakePush(stripe, 1), Vector(kStripe, -1.0f)).verdict(), APPLIED);
  }
  ASSERT_EQ(Parameters(), begun);

  VectorRequest copy;
  copy.set_job("job-1");
  copy.set_shard_epoch(kEpoch);
  copy.set_op_id(1);
  copy.mutable_copy()->set_out("w");
  ASSERT_OK(shard_.Vector(copy));
  const Vector taken = Parameters();
  for (size_t i = 0; i < kFloats; ++i) {
    ASSERT_FLOAT_EQ(taken[i], begun[i] + 1) << i;
  }
  EXPECT_EQ(Status().version_min(), 1u);
  ASSERT_OK(shard_.CloseSession(away));
  EXPECT_EQ(Parameters(), taken);
  EXPECT_EQ(Status().version_max(), 1u);
}

}  // namespace
}  // namespace monsoon
