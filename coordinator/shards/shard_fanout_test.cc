#include "coordinator/shards/shard_fanout.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ShardFanoutTest, RepeatsWhatWasLost) {
  ShardFanout fanout(2);
  absl::Duration now = absl::Seconds(1);
  EXPECT_THAT(fanout.Due(now), ElementsAre(0, 1));
  EXPECT_THAT(fanout.Due(now), IsEmpty());
  fanout.OnResult(0, absl::OkStatus(), now);
  fanout.OnResult(1, absl::UnavailableError("away"), now);
  EXPECT_FALSE(fanout.done());
  EXPECT_THAT(fanout.Due(now), IsEmpty());
  now += kCommandRetry;
  EXPECT_THAT(fanout.Due(now), ElementsAre(1));
  fanout.OnResult(1, absl::OkStatus(), now);
  EXPECT_TRUE(fanout.done());
  EXPECT_TRUE(fanout.error().ok());
}

TEST(ShardFanoutTest, KeepsTheFirstLastingError) {
  ShardFanout fanout(2);
  fanout.Due(absl::ZeroDuration());
  fanout.OnResult(1, absl::ResourceExhaustedError("full"), absl::ZeroDuration());
  fanout.OnResult(0, absl::InternalError("later"), absl::ZeroDuration());
  EXPECT_TRUE(fanout.done());
  EXPECT_EQ(fanout.error().message(), "full");
}

TEST(ShardFanoutTest, SkippedShardsNeedNoAnswer) {
  ShardFanout fanout(2);
  fanout.Due(absl::ZeroDuration());
  fanout.OnResult(0, absl::OkStatus(), absl::ZeroDuration());
  fanout.Skip(1);
  EXPECT_TRUE(fanout.done());
  fanout.OnResult(1, absl::InternalError("gone"), absl::ZeroDuration());
  EXPECT_TRUE(fanout.error().ok());
}

}  // namespace
}  // namespace monsoon
