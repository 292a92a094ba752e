// Which job and which coordinator a slice belongs to, and shards that are silent.

#include "coordinator/core/core_harness.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreHarness;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class CoreIdentityTest : public ::testing::Test {
 protected:
  // Two workers train.
  void Train() {
    h_.Poll();
    h_.Submit(h_.Plan(50));
    h_.Settle();
    h_.Join(0);
    h_.Join(1);
    ASSERT_OK(h_.Ask(0));
    ASSERT_OK(h_.Ask(1));
  }
  CoreHarness h_{2, 2};
};

TEST_F(CoreIdentityTest, TheTermIsAboveThatOfTheShardsAndTheClock) {
  const uint64_t by_clock = h_.core().state().snapshot().term();
  EXPECT_EQ(by_clock, 1000000u * 1000);
  h_.shard(1).term = by_clock + 7;  // An earlier coordinator had a clock ahead.
  h_.Poll();
  EXPECT_EQ(h_.core().state().snapshot().term(), by_clock + 8);
  Train();
  EXPECT_EQ(h_.session_[0].job_term(), by_clock + 8);
  EXPECT_EQ(h_.shard(0).term, by_clock + 8);
}

TEST_F(CoreIdentityTest, AnotherCoordinatorsTakeoverEndsTheJobsByName) {
  Train();
  h_.shard(1).term += 3;
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("another coordinator has taken over"),
                                 HasSubstr("ps/1 at unix:ps1")));
  EXPECT_THAT(h_.core().Submit(h_.Plan(1), {}, h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another coordinator")));
}

TEST_F(CoreIdentityTest, CommandsAreNumberedWithRoomForACallBefore) {
  h_.Submit(h_.Plan(1));
  h_.Poll();
  uint64_t last = 0;
  for (int round = 0; round < 3; ++round) {
    h_.now_ += absl::Seconds(1);
    for (const ShardCommand& command : h_.core().TakeCommands(h_.now())) {
      EXPECT_GE(command.call, last + 2);
      EXPECT_EQ(command.create.call(), command.call);
      last = command.call;
      h_.core().OnCommand(command, {absl::UnavailableError("lost")}, h_.now());
    }
  }
  EXPECT_GE(last, 4u);
}

TEST_F(CoreIdentityTest, ASessionOfAnEarlierTermIsNotOpen) {
  Train();
  h_.session_[0].set_job_term(h_.session_[0].job_term() - 1);
  EXPECT_THAT(h_.Ask(0).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not open")));
}

TEST_F(CoreIdentityTest, ASliceThatVanishesFailsItsJobByName) {
  Train();
  h_.shard(1).jobs.erase("j-1");
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("ps/1 (pid 101) at unix:ps1"),
                                 HasSubstr("has no slice of it any more"), HasSubstr("j-1")));
  EXPECT_THAT(h_.Events(), Contains("slice_deleted ps/1"));
}

TEST_F(CoreIdentityTest, ASliceOfAnEndedJobThatVanishesMakesItNotExportable) {
  h_.Poll();
  h_.Submit(h_.Plan(1));
  h_.Settle();
  h_.Join(0);
  h_.TrainToTheEnd(0);
  h_.Settle();
  h_.Poll();
  ASSERT_EQ(h_.State(), SUCCEEDED);
  h_.shard(0).jobs.erase("j-1");
  h_.Poll();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_THAT(h_.core().Locate("j-1", h_.now()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("lost parameters")));
}

// The poll was under way when the slice was made, so its answer lacks it.
TEST_F(CoreIdentityTest, APollThatBeganBeforeTheSlicesWereMadeIsNoProof) {
  h_.Poll();
  const uint64_t round = h_.core().BeginPoll();
  const absl::StatusOr<ShardStatusReply> before = h_.Status(0);
  h_.Submit(h_.Plan(50));
  h_.Settle();
  h_.core().Tick(h_.now());
  h_.Join(0);
  ASSERT_EQ(h_.State(), RUNNING);
  h_.core().OnPoll(0, round, before, h_.now());
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_THAT(h_.Events(), Not(Contains("slice_deleted ps/0")));
}

TEST_F(CoreIdentityTest, SlicesOfAnEarlierCoordinatorAreShownAndDeletedOnRequest) {
  h_.shard(0).orphans[{"j-1", 5}] = 100;
  h_.shard(1).orphans[{"j-1", 5}] = 120;
  h_.shard(1).orphans[{"other-3", 6}] = 1;
  h_.Poll();
  EXPECT_EQ(h_.Submit(h_.Plan(50)), "j-2");  // Its id is taken.
  ListReply list = h_.core().List(h_.now());
  ASSERT_EQ(list.orphan_size(), 2);
  EXPECT_EQ(list.orphan(0).job(), "j-1");
  EXPECT_EQ(list.orphan(0).shard_size(), 2);
  EXPECT_EQ(list.orphan(0).memory_bytes(), 220u);
  EXPECT_EQ(list.orphan(1).job(), "other-3");
  EXPECT_THAT(h_.core().Delete("j-9", h_.now()).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("j-9")));
  ASSERT_OK(h_.core().Delete("j-1", h_.now()));
  EXPECT_FALSE(h_.shard(0).orphans.empty());
  h_.Settle();
  EXPECT_TRUE(h_.shard(0).orphans.empty());
  EXPECT_EQ(h_.core().List(h_.now()).orphan_size(), 1);  // Though no poll has told it yet.
  h_.Poll();
  EXPECT_EQ(h_.core().List(h_.now()).orphan_size(), 1);
  EXPECT_EQ(h_.shard(1).orphans.size(), 1u);
}

TEST_F(CoreIdentityTest, AJobWaitsForASilentShardAndGoesOn) {
  Train();
  h_.shard(1).silent = true;
  h_.Pass(absl::Seconds(29), {0, 1});
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_THAT(h_.Events(), Contains("shard_silent ps/1"));
  EXPECT_EQ(h_.core().Info(h_.now()).task(1).state(), "SUSPECT");
  h_.shard(1).silent = false;
  h_.Pass(absl::Seconds(1), {0, 1});
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_THAT(h_.Events(), Contains("shard_back ps/1"));
  ASSERT_OK(h_.Ask(0));
}

TEST_F(CoreIdentityTest, AShardThatStaysSilentIsLost) {
  Train();
  h_.shard(1).silent = true;
  h_.Pass(absl::Seconds(31), {0, 1});
  h_.Settle();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("ps/1"), HasSubstr("is lost: silent for 30")));
}

// The silent shard serves the moment it wakes: pushes of the lost worker that it still
// has to read must not count beside those of the worker that repeats them.
TEST_F(CoreIdentityTest, ALostWorkersBlocksWaitForTheSilentShardsClose) {
  Train();
  const std::vector<BlockId> lost = h_.held_[0];
  ASSERT_FALSE(lost.empty());
  h_.shard(1).silent = true;
  h_.Pass(absl::Seconds(20), {1});
  EXPECT_THAT(h_.Events(), Contains("worker_lost worker/0"));
  EXPECT_THAT(h_.Events(), Not(Contains("blocks_released worker/0")));
  h_.shard(1).silent = false;
  h_.Pass(absl::Seconds(1), {1});
  EXPECT_THAT(h_.Events(), Contains("blocks_released worker/0"));
  EXPECT_THAT(h_.shard(1).history, Contains(HasSubstr("close j-1/0#1")));
}

}  // namespace
}  // namespace monsoon
