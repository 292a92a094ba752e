#include "coordinator/shards/shard_monitor.h"

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = ShardChange::Kind;

ShardStatusReply Alive(uint32_t task, uint32_t pid, uint64_t epoch) {
  ShardStatusReply reply;
  reply.set_task(task);
  reply.set_pid(pid);
  reply.set_shard_epoch(epoch);
  return reply;
}

TEST(ShardMonitorTest, AShardOfTheLastLifeIsSuspectUntilItAnswers) {
  for (const uint64_t epoch : {9u, 10u}) {
    ShardMonitor monitor(1, absl::Seconds(3), absl::Seconds(30));
    monitor.Expect(0, Alive(0, 50, 9), absl::Seconds(1));
    EXPECT_FALSE(monitor.all_up());
    EXPECT_THAT(monitor.Tick(absl::Seconds(30.9)), IsEmpty());
    const auto change = monitor.OnPoll(0, 1, Alive(0, 51, epoch), absl::Seconds(31), 0);
    EXPECT_EQ(change->kind, epoch == 9 ? Kind::kJoined : Kind::kRestarted);
    EXPECT_EQ(change->old_pid, 50u);
    EXPECT_TRUE(monitor.all_up());
  }
  ShardMonitor monitor(1, absl::Seconds(3), absl::Seconds(30));
  monitor.Expect(0, Alive(0, 50, 9), absl::Seconds(1));
  EXPECT_EQ(monitor.Tick(absl::Seconds(31.1)).at(0).kind, Kind::kLost);
}

TEST(ShardMonitorTest, JoinLoseBackRestart) {
  ShardMonitor monitor(1, absl::Seconds(3), absl::Seconds(30));
  EXPECT_FALSE(monitor.all_up());
  EXPECT_FALSE(
      monitor.OnPoll(0, 1, absl::UnavailableError("refused"), absl::Seconds(1), 0).has_value());
  EXPECT_THAT(monitor.Tick(absl::Seconds(60)), IsEmpty());  // Never seen: not lost.
  EXPECT_EQ(monitor.OnPoll(0, 2, Alive(0, 50, 9), absl::Seconds(60), 0)->kind, Kind::kJoined);
  EXPECT_TRUE(monitor.all_up());
  EXPECT_FALSE(monitor.OnPoll(0, 3, Alive(0, 50, 9), absl::Seconds(61), 0).has_value());
  absl::Status refused = absl::UnavailableError("gone");
  MarkNobodyListens(&refused);
  EXPECT_FALSE(monitor.OnPoll(0, 4, refused, absl::Seconds(62), 0).has_value());
  EXPECT_THAT(monitor.Tick(absl::Seconds(64)), IsEmpty());
  const auto lost = monitor.Tick(absl::Seconds(64.5));
  ASSERT_THAT(lost, SizeIs(2));
  EXPECT_EQ(lost[0].kind, Kind::kSuspect);
  EXPECT_EQ(lost[1].kind, Kind::kLost);
  EXPECT_EQ(lost[1].pid, 50u);
  EXPECT_THAT(monitor.Tick(absl::Seconds(65)), IsEmpty());
  EXPECT_EQ(monitor.OnPoll(0, 5, Alive(0, 50, 9), absl::Seconds(66), 0)->kind, Kind::kBack);
  const auto restarted = monitor.OnPoll(0, 6, Alive(0, 51, 10), absl::Seconds(67), 0);
  ASSERT_TRUE(restarted.has_value());
  EXPECT_EQ(restarted->kind, Kind::kRestarted);
  EXPECT_EQ(restarted->old_pid, 50u);
  EXPECT_EQ(restarted->pid, 51u);
  EXPECT_EQ(restarted->silent, absl::Seconds(1));
}

TEST(ShardMonitorTest, SilenceMakesSuspectLongBeforeItMakesLost) {
  ShardMonitor monitor(1, absl::Seconds(3), absl::Seconds(30));
  monitor.OnPoll(0, 1, Alive(0, 50, 9), absl::Seconds(0), 0);
  monitor.OnPoll(0, 2, absl::DeadlineExceededError("silent"), absl::Seconds(2), 0);
  auto changes = monitor.Tick(absl::Seconds(3.5));
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].kind, Kind::kSuspect);
  EXPECT_FALSE(monitor.all_up());
  EXPECT_THAT(monitor.Tick(absl::Seconds(29.5)), IsEmpty());
  EXPECT_EQ(monitor.OnPoll(0, 3, Alive(0, 50, 9), absl::Seconds(29.6), 0)->kind, Kind::kBack);
  EXPECT_TRUE(monitor.all_up());
  EXPECT_THAT(monitor.Tick(absl::Seconds(33)), SizeIs(1));
  changes = monitor.Tick(absl::Seconds(60));
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].kind, Kind::kLost);
}

TEST(ShardMonitorTest, ARestartWhileLostIsARestart) {
  ShardMonitor monitor(1, absl::Seconds(3), absl::Seconds(30));
  monitor.OnPoll(0, 1, Alive(0, 50, 9), absl::Seconds(0), 0);
  monitor.Tick(absl::Seconds(10));
  EXPECT_EQ(monitor.OnPoll(0, 2, Alive(0, 51, 10), absl::Seconds(11), 0)->kind, Kind::kRestarted);
}

TEST(ShardMonitorTest, AnotherTaskAtTheAddressIsNamed) {
  ShardMonitor monitor(2, absl::Seconds(3), absl::Seconds(30));
  EXPECT_FALSE(monitor.OnPoll(1, 1, Alive(0, 50, 9), absl::Seconds(1), 0).has_value());
  EXPECT_EQ(monitor.shard(1).state, ShardView::State::kNeverSeen);
  EXPECT_THAT(std::string(monitor.shard(1).last_error.message()), HasSubstr("ps/0 (pid 50)"));
}

TEST(ShardMonitorTest, RoundsAreCommonOnlyWhenAllAnswered) {
  ShardMonitor monitor(2, absl::Seconds(3), absl::Seconds(30));
  monitor.OnPoll(0, 4, Alive(0, 50, 1), absl::Seconds(1), 0);
  EXPECT_FALSE(monitor.common_round().has_value());
  monitor.OnPoll(1, 3, Alive(1, 51, 1), absl::Seconds(1), 0);
  EXPECT_FALSE(monitor.common_round().has_value());
  monitor.OnPoll(1, 4, Alive(1, 51, 1), absl::Seconds(1), 0);
  EXPECT_EQ(monitor.common_round(), 4u);
}

}  // namespace
}  // namespace monsoon
