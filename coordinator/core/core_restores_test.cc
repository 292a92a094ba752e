// Shards that keep state die while a job trains, and are started again.
#include "coordinator/core/core_restores_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreRestoresTest;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Kind = ShardCommand::Kind;

TEST_F(CoreRestoresTest, TheSameJobGoesOn) {
  StartWithAGeneration();
  const SessionKey session = h_.session_[0];
  h_.member_[1].set_identity("monsoon://c/worker/1");
  h_.member_[1].set_key(std::string(32, 'a'));
  h_.Join(1);
  Kill(1);
  h_.Pass(absl::Seconds(10), {0, 1});
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_THAT(
      h_.Reason(),
      AllOf(StartsWith("waits for ps/1 at unix:ps1 (lost for 1"), HasSubstr("connection refused"),
            EndsWith("; the job goes on when it is started again, which `coordinator up` "
                     "does; else do it by hand")));
  EXPECT_EQ(CountOf("shard_lost ps/1"), 1);
  EXPECT_EQ(h_.Beat(0).assignment().shard_epoch(1), 1000u);
  EXPECT_THAT(h_.core().Locate("j-1", h_.now()).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ps/1")));
  h_.Restart(1);
  h_.Pass(absl::Seconds(1), {0, 1});
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.Reason(), "");
  const RestoreShardJobRequest& order = h_.shard(1).restore;
  EXPECT_EQ(order.create().job(), "j-1");
  EXPECT_EQ(order.create().shard(), 1u);
  EXPECT_EQ(order.create().term(), h_.shard(0).term);
  EXPECT_EQ(h_.shard(1).history.back(), "restore j-1: j-1/0#1 j-1/1#1");
  EXPECT_EQ(h_.shard(1).restores, 1);
  EXPECT_EQ(h_.shard(0).restores, 0);
  EXPECT_EQ(h_.shard(1).strange, 0);
  for (const std::string session_name : {"j-1/0#1", "j-1/1#1"}) {
    EXPECT_EQ(h_.shard(1).owner[session_name].SerializeAsString(),
              h_.shard(0).owner[session_name].SerializeAsString());
  }
  EXPECT_EQ(h_.shard(1).owner["j-1/1#1"].identity(), "monsoon://c/worker/1");
  // The sessions are those of before, and workers learn of the new life.
  EXPECT_EQ(h_.session_[0].SerializeAsString(), session.SerializeAsString());
  EXPECT_THAT(h_.Beat(0).assignment().shard_epoch(), ElementsAre(1000, 1001));
  EXPECT_THAT(h_.Events(), AllOf(Not(Contains(StartsWith("session_refused"))),
                                 Not(Contains(StartsWith("worker_lost")))));
  EXPECT_THAT(EventText("shard_restored"),
              AllOf(StartsWith("ps/1 (pid 151) has its slice of j-1 again, from generation 1; it "
                               "was away for 1"),
                    Not(HasSubstr("passed over"))));
  EXPECT_EQ(h_.Describe().counts().restores(), 1u);
  ASSERT_OK_AND_ASSIGN(const JobLocation location, h_.core().Locate("j-1", h_.now()));
  EXPECT_EQ(location.shard_epoch(1), 1001u);
  ASSERT_OK(h_.Ask(0));
}

// Before the first generation its slice is made anew, and workers send it all.
TEST_F(CoreRestoresTest, BeforeTheFirstGenerationAnythingWillDo) {
  Start(h_.Plan(50));
  Push(3);
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 0u);
  EXPECT_THAT(EventText("shard_restored"), HasSubstr("again, with its initial parameters"));
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(CoreRestoresTest, AfterTheFirstGenerationInitialParametersDoNot) {
  StartWithAGeneration();
  h_.shard(1).generation.clear();
  h_.shard(1).restore_error = absl::NotFoundError("ps-1-of-2.g1.e1000: checksum");
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 1u);
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_EQ(h_.Reason(),
            "ps/1 (pid 151) at unix:ps1 has restarted and cannot restore its slice: "
            "ps-1-of-2.g1.e1000: checksum; its slice of job j-1 is lost");
  EXPECT_THAT(h_.Events(), Contains("shard_not_restored ps/1"));
  EXPECT_EQ(h_.shard(1).restores, 1) << "it is not asked again";
  EXPECT_THAT(h_.core().Locate("j-1", h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("lost parameters")));
}

TEST_F(CoreRestoresTest, ItIsAskedAgainUntilItAnswers) {
  StartWithAGeneration();
  h_.shard(1).restore_error = absl::DeadlineExceededError("it still reads");
  h_.Restart(1);
  // The harness settles, so the time must pass between the orders.
  Pass(2);
  EXPECT_GE(h_.shard(1).restores, 5);
  EXPECT_EQ(h_.Reason(),
            "waits for ps/1 at unix:ps1 (pid 151) to restore its slice, which says: it "
            "still reads");
  EXPECT_THAT(h_.core().Locate("j-1", h_.now()).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("restore its slice")));
  EXPECT_EQ(h_.Beat(0).assignment().shard_epoch(1), 1000u);
  EXPECT_THAT(h_.Events(), Not(Contains("slice_deleted ps/1")));
  h_.shard(1).restore_error = absl::OkStatus();
  Pass(1);
  EXPECT_EQ(h_.Reason(), "");
  EXPECT_EQ(h_.Beat(0).assignment().shard_epoch(1), 1001u);
}

TEST_F(CoreRestoresTest, DiesTwice) {
  StartWithAGeneration();
  for (int i = 0; i < 2; ++i) {
    Kill(1);
    Pass(5);
    h_.Restart(1);
    Pass(1);
  }
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.Beat(0).assignment().shard_epoch(1), 1002u);
  EXPECT_EQ(CountOf("shard_lost ps/1"), 2);
  EXPECT_EQ(h_.Describe().counts().restores(), 2u);
}

TEST_F(CoreRestoresTest, BothDie) {
  StartWithAGeneration();
  Kill(0);
  Kill(1);
  Pass(5);
  h_.Restart(1);
  Pass(2);
  EXPECT_THAT(h_.Reason(), HasSubstr("ps/0"));
  EXPECT_EQ(h_.Beat(0).assignment().shard_epoch(1), 1001u) << "they do not wait for each other";
  h_.Restart(0);
  Pass(1);
  EXPECT_THAT(h_.Beat(0).assignment().shard_epoch(), ElementsAre(1001, 1001));
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(CoreRestoresTest, DiesDuringARestore) {
  StartWithAGeneration();
  h_.Restart(1);
  const ShardCommand first = PollAndTakeRestore();
  EXPECT_EQ(first.shard_epoch, 1001u);
  const ShardAnswer answer = h_.Answer(first);
  h_.Restart(1);
  // Its answer comes when the next life is known: it is not of that one.
  const ShardCommand second = PollAndTakeRestore();
  EXPECT_EQ(second.shard_epoch, 1002u);
  h_.core().OnCommand(first, answer, h_.now());
  EXPECT_EQ(h_.Describe().counts().restores(), 0u);
  h_.core().OnCommand(first, {absl::NotFoundError("of the life before")}, h_.now());
  EXPECT_EQ(h_.State(), RUNNING);
  h_.core().OnCommand(second, h_.Answer(second), h_.now());
  EXPECT_EQ(h_.Beat(0).assignment().shard_epoch(1), 1002u);
  Pass(1);
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.Describe().counts().restores(), 1u);
}

// The order waits in a queue, and a life that no poll has shown carries it out.
TEST_F(CoreRestoresTest, AnAnswerOfALifeThatIsNotKnownYetIsNoAnswer) {
  StartWithAGeneration();
  h_.Restart(1);
  const ShardCommand order = PollAndTakeRestore();
  h_.Restart(1);
  h_.core().OnCommand(order, h_.Answer(order), h_.now());
  EXPECT_EQ(h_.Beat(0).assignment().shard_epoch(1), 1000u);
  Pass(1);
  EXPECT_EQ(h_.Beat(0).assignment().shard_epoch(1), 1002u);
  EXPECT_EQ(h_.State(), RUNNING);
}

// The poll was under way when the slice came back, so its answer lacks it.
TEST_F(CoreRestoresTest, APollThatBeganBeforeTheRestoreIsNoProof) {
  StartWithAGeneration();
  h_.Restart(1);
  const ShardCommand order = PollAndTakeRestore();
  const uint64_t round = h_.core().BeginPoll();
  const absl::StatusOr<ShardStatusReply> before = h_.Status(1);
  h_.core().OnCommand(order, h_.Answer(order), h_.now());
  h_.core().OnPoll(1, round, before, h_.now());
  Pass(1);
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(CoreRestoresTest, ASessionThatIsBeingClosedIsClosedByTheRestore) {
  StartWithAGeneration();
  h_.Join(1);
  ASSERT_OK(h_.Ask(1));
  Kill(1);
  Pass(10);  // worker/1 is silent, too
  EXPECT_THAT(h_.Events(), Contains("worker_lost worker/1"));
  EXPECT_THAT(h_.Events(), Not(Contains("blocks_released worker/1")));
  h_.shard(1).restore_error = absl::UnavailableError("it reads");
  h_.Restart(1);
  h_.Poll();
  Pass(1);
  EXPECT_EQ(h_.shard(1).strange, 0) << "nothing is asked of it before";
  EXPECT_THAT(h_.Events(), Not(Contains("blocks_released worker/1")));
  h_.shard(1).restore_error = absl::OkStatus();
  Pass(1);
  EXPECT_THAT(h_.shard(1).history, Contains("restore j-1: j-1/0#1"));
  EXPECT_THAT(h_.Events(), Contains("blocks_released worker/1"));
}

TEST_F(CoreRestoresTest, ASessionThatIsBeingOpenedIsOpenedByTheRestore) {
  StartWithAGeneration();
  h_.Beat(1);
  // The order to open is on its way while the shard dies.
  const std::vector<ShardCommand> open = h_.core().TakeCommands(h_.now());
  ASSERT_EQ(open.size(), 2u);
  h_.Restart(1);
  for (const ShardCommand& command : open) {
    ASSERT_EQ(command.kind, Kind::kOpenSession);
    h_.core().OnCommand(command, h_.Answer(command), h_.now());
  }
  EXPECT_EQ(h_.shard(1).strange, 1);
  h_.Poll();
  h_.Pass(absl::Seconds(1), {0, 1});
  EXPECT_THAT(h_.shard(1).history, Contains("restore j-1: j-1/0#1 j-1/1#1"));
  EXPECT_THAT(h_.Events(), Not(Contains("session_refused worker/1")));
  EXPECT_TRUE(h_.Beat(1).has_assignment());
  EXPECT_EQ(h_.shard(1).strange, 1);
}

TEST_F(CoreRestoresTest, NoSessionIsBegunWhileAShardIsAway) {
  StartWithAGeneration();
  Kill(1);
  Pass(5);
  h_.Beat(1);
  h_.Pass(absl::Seconds(1), {0, 1});
  EXPECT_FALSE(h_.Beat(1).has_assignment());
  h_.Restart(1);
  h_.Pass(absl::Seconds(2), {0, 1});
  EXPECT_TRUE(h_.Beat(1).has_assignment());
}

// Nobody has what a worker pushed that died before the shard did.
TEST_F(CoreRestoresTest, WhatIsLostIsNamedOnce) {
  StartWithAGeneration();
  h_.Join(1);
  h_.shard(1).lost = {Lost(0, 1, 2), Lost(1, 13, 20)};
  Kill(1);
  Pass(10);
  h_.Restart(1);
  Pass(1);
  ASSERT_EQ(Durability().lost_size(), 1);
  EXPECT_EQ(Durability().lost(0).shard(), 1u);
  EXPECT_EQ(Durability().lost(0).worker(), 1u);
  EXPECT_EQ(Durability().lost(0).from(), 13u);
  EXPECT_EQ(Durability().lost(0).to(), 20u);
  EXPECT_EQ(EventText("pushes_lost"),
            "ps/1 has lost pushes 13 to 20 (16 records) of worker/1#1, which is gone and cannot "
            "send them again");
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(CountOf("pushes_lost worker/1"), 1);
  // An older part, from which more is missing.
  h_.shard(1).lost = {Lost(1, 11, 20)};
  h_.shard(1).lost[0].clear_to();
  h_.shard(1).lost[0].set_to_at_least(20);
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(CountOf("pushes_lost worker/1"), 2);
  EXPECT_THAT(EventText("pushes_lost"), HasSubstr("lost pushes 11 to 20 at least"));
  ASSERT_EQ(Durability().lost_size(), 1);
  EXPECT_EQ(Durability().lost(0).from(), 11u);
  EXPECT_FALSE(Durability().lost(0).has_to());
  EXPECT_EQ(Durability().promise(), "exactly_once");
}

// A worker that dies before it has sent everything again.
TEST_F(CoreRestoresTest, WhatAWorkerDidNotSendAgainIsNamed) {
  StartWithAGeneration();
  h_.Join(1);
  Kill(1);
  h_.Pass(absl::Seconds(4), {0, 1});
  h_.Restart(1);
  h_.Pass(absl::Seconds(1), {0, 1});
  h_.shard(1).lost_at_close["j-1/1#1"] = Lost(1, 13, 20);
  Pass(8);  // worker/1 is silent
  ASSERT_EQ(Durability().lost_size(), 1);
  EXPECT_EQ(Durability().lost(0).shard(), 1u);
  EXPECT_EQ(Durability().lost(0).from(), 13u);
  EXPECT_EQ(CountOf("pushes_lost worker/1"), 1);
}

TEST_F(CoreRestoresTest, CancellingDoesNotWaitForADeadShard) {
  StartWithAGeneration();
  Kill(1);
  Pass(10);
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  Pass(1);
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_THAT(h_.shard(0).open, IsEmpty());
  // When it comes back, what the job had there beyond the generation is gone.
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_EQ(h_.shard(1).restores, 0);
  EXPECT_THAT(h_.core().Locate("j-1", h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("lost parameters")));
}

TEST_F(CoreRestoresTest, CancellingDoesNotWaitForARestore) {
  StartWithAGeneration();
  h_.shard(1).restore_error = absl::UnavailableError("it reads");
  h_.Restart(1);
  Pass(2);
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  Pass(1);
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_EQ(EventText("shard_not_restored"), "the job ended before its slice was restored");
  EXPECT_THAT(h_.Events(), Not(Contains("slice_deleted ps/1")));
  // The next job does not care.
  Start(h_.Plan(1));
}

TEST_F(CoreRestoresTest, ASuspectShardIsWaitedForUntilItIsLostAndThenOn) {
  StartWithAGeneration();
  h_.shard(1).silent = true;
  Pass(100);
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(CountOf("shard_lost ps/1"), 1);
  h_.shard(1).silent = false;
  Pass(1);
  EXPECT_EQ(h_.Reason(), "");
  EXPECT_EQ(h_.shard(1).restores, 0) << "it is the same life";
}

// The wait for workers does not run out meanwhile: nobody could join.
TEST_F(CoreRestoresTest, AShardThatIsAwayLongerThanWorkersAreWaitedFor) {
  StartWithAGeneration();
  h_.Pass(absl::Seconds(10));  // worker/0 is silent
  ASSERT_THAT(h_.Events(), Contains("no_worker"));
  Kill(1);
  h_.Pass(absl::Seconds(300));
  EXPECT_EQ(h_.State(), RUNNING);
  h_.Restart(1);
  h_.Beat(0);
  h_.Pass(absl::Seconds(2), {0});
  EXPECT_TRUE(h_.Beat(0).has_assignment());
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_THAT(h_.shard(1).history, Contains("restore j-1:"));
}

TEST_F(CoreRestoresTest, AnOrderThatWasUnderWayIsRepeatedToTheNewLife) {
  StartWithAGeneration();
  h_.shard(1).disk_is_slow = true;
  ASSERT_OK(Ask());
  Pass(1);
  ASSERT_EQ(h_.shard(1).ordered["j-1"].generation(), 2u);
  h_.shard(1).restore_error = absl::UnavailableError("it reads");
  h_.Restart(1);
  h_.Poll();
  Pass(3);
  EXPECT_EQ(h_.shard(1).strange, 0);
  h_.shard(1).disk_is_slow = false;
  h_.shard(1).restore_error = absl::OkStatus();
  Pass(2);
  EXPECT_EQ(Durability().generation(), 2u);
  EXPECT_EQ(h_.shard(1).generation["j-1"], 2u);
  EXPECT_EQ(h_.shard(0).orders, 2);
}

TEST_F(CoreRestoresTest, NoGenerationIsBegunBeforeTheShardIsBack) {
  StartWithAGeneration();
  h_.shard(1).restore_error = absl::UnavailableError("it reads");
  h_.Restart(1);
  Pass(1);
  Push(5);
  ASSERT_OK_AND_ASSIGN(const CheckpointOrder order, Ask());
  Pass(30);
  EXPECT_EQ(h_.shard(0).orders, 1);
  h_.shard(1).restore_error = absl::OkStatus();
  Pass(2);
  EXPECT_EQ(Durability().generation(), order.generation());
}

// Its versions go back: what is applied after that counts, from there.
TEST_F(CoreRestoresTest, ChangesCountAgainFromTheVersionThatItComesBackWith) {
  StartWithAGeneration();
  Push(1000);
  ASSERT_OK(Ask());
  h_.shard(1).disk_error = "No space left on device";
  Pass(1);
  h_.shard(1).disk_error.clear();
  h_.Restart(1);
  Pass(3);
  ASSERT_EQ(Durability().generation(), 2u);
  EXPECT_LT(h_.shard(1).version, 100u);
  const int orders = h_.shard(1).orders;
  Push(1);
  Pass(60);
  EXPECT_GT(h_.shard(1).orders, orders);
}

TEST_F(CoreRestoresTest, ALagWhileTheShardCatchesUpIsNoSkew) {
  StartWithAGeneration();
  h_.shard(0).version += 3;
  Pass(1);
  EXPECT_EQ(h_.Describe().shard_skew_max(), 3u);
  Push(500);
  h_.Restart(1);
  Pass(1);
  EXPECT_GT(h_.Describe().shard_skew_now(), 400u);
  EXPECT_EQ(h_.Describe().shard_skew_max(), 3u);
  h_.shard(1).version = h_.shard(0).version;
  Pass(1);
  h_.shard(1).version += 4;
  Pass(1);
  EXPECT_EQ(h_.Describe().shard_skew_max(), 4u);
}

TEST_F(CoreRestoresTest, InitialValuesAreMadeAnew) {
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 0u);
  EXPECT_TRUE(h_.shard(1).jobs.contains("j-1"));
  h_.Join(0);
  EXPECT_THAT(h_.Beat(0).assignment().shard_epoch(), ElementsAre(1000, 1001));
}

// The coordinator has not heard yet that all shards have the generation by which a session has
// ended: a folder without it is another one nevertheless.
TEST_F(CoreRestoresTest, AGenerationByWhichASessionHasEndedMustBeThere) {
  StartWithAGeneration();
  h_.Join(1);
  const uint64_t held = Durability().generation();
  h_.TellDurable(1, {held + 1, held});
  h_.TellDurable(1, {held, held});  // an older call
  h_.Leave(1);
  h_.Settle();
  h_.RestartCoordinator();
  h_.Restart(0);
  h_.Restart(1);
  h_.Pass(absl::Seconds(1));
  EXPECT_EQ(h_.shard(0).restore.held(), held + 1);
  EXPECT_EQ(h_.shard(1).restore.held(), held);
}

// Of a shard that died while the job's first session was being opened and closed again.
TEST_F(CoreRestoresTest, ASliceIsRestoredThoughNobodyTrainsAnyMore) {
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  h_.Beat(0);  // its session is to be opened
  h_.shard(1).alive = false;
  h_.Settle();
  h_.Leave(0);
  h_.Restart(1);
  Pass(1);
  EXPECT_THAT(h_.Reason(), Not(HasSubstr("ps/1")));
  h_.Join(1);
  EXPECT_THAT(h_.Beat(1).assignment().shard_epoch(), ElementsAre(1000, 1001));
}

TEST_F(CoreRestoresTest, WhatAClientWroteIsWrittenToTheDiskAtOnce) {
  h_.Submit(h_.Plan(50), /*init=*/true);
  h_.Poll();
  h_.Settle();
  ASSERT_EQ(h_.State(), INITIALIZING);
  ASSERT_OK(h_.core().Start("j-1", h_.now()));
  h_.Pass(absl::Seconds(1));
  EXPECT_EQ(h_.State(), PENDING) << "nobody trains yet";
  EXPECT_EQ(Durability().generation(), 1u);
  EXPECT_EQ(Context().reason(), "its initial parameters are a client's");
  h_.Restart(1);
  h_.Pass(absl::Seconds(1));
  EXPECT_THAT(EventText("shard_restored"), HasSubstr("from generation 1"));
  h_.Join(0);
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(CoreRestoresTest, WhatAClientWroteIsLostBeforeThat) {
  h_.shard(1).disk_is_slow = true;
  h_.Submit(h_.Plan(50), /*init=*/true);
  h_.Poll();
  h_.Settle();
  ASSERT_OK(h_.core().Start("j-1", h_.now()));
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("cannot restore its slice: no part of it is good enough"));
}

}  // namespace
}  // namespace monsoon
