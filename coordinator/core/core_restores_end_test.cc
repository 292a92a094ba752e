// Shards die while a job ends or after it, jobs that are not restored, and generations that
// are ordered so that little is lost.
#include "coordinator/core/core_restores_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreRestoresTest;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// ---- jobs that end, and have ended -------------------------------------------

TEST_F(CoreRestoresTest, ReplicasStayUntilTheirPushesAreOnTheDisk) {
  Start(1);
  h_.shard(1).disk_is_slow = true;
  Train();
  Pass(10);
  EXPECT_EQ(h_.State(), FINISHING);
  EXPECT_EQ(h_.Reason(), "waits for its last checkpoint");
  EXPECT_EQ(Context().reason(), "replicas finish");
  EXPECT_TRUE(h_.Beat(0).has_assignment()) << "it may have to send all of it again";
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).history.back(), "restore j-1: j-1/0#1");
  EXPECT_TRUE(h_.Beat(0).has_assignment());
  h_.silent_shard_[0] = 1;
  Pass(1);
  EXPECT_EQ(h_.Reason(), "waits for its last checkpoint; worker/0 does not reach ps/1 at unix:ps1");
  h_.silent_shard_.clear();
  h_.shard(1).disk_is_slow = false;
  Pass(4);
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_TRUE(Context().final());
}

TEST_F(CoreRestoresTest, DiesWhileTheLastCheckpointIsAwaited) {
  Start(1);
  Train();
  h_.shard(1).disk_error = "No space left on device";
  Pass(3);
  ASSERT_EQ(h_.State(), FINISHING);
  ASSERT_THAT(h_.shard(0).open, IsEmpty());
  h_.shard(1).disk_error.clear();
  Kill(1);
  Pass(100);
  EXPECT_EQ(h_.State(), FINISHING);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("waits for its last checkpoint"), HasSubstr("ps/1")));
  h_.Restart(1);
  Pass(3);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 1u);
  EXPECT_EQ(h_.State(), SUCCEEDED);
}

// Its worker has seen its pushes on the disks and gone, the coordinator knows of none.
TEST_F(CoreRestoresTest, DiesWhenTheFirstGenerationIsThereAndNobodyHasSaidSo) {
  Start(1);
  Train();
  ASSERT_EQ(Durability().generation(), 0u);
  h_.Leave(0);
  h_.Settle();
  ASSERT_EQ(h_.State(), FINISHING);
  h_.Restart(1);
  Pass(3);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 1u);
  EXPECT_EQ(h_.State(), SUCCEEDED) << h_.Reason();
}

TEST_F(CoreRestoresTest, DiesBeforeTheLastSessionIsClosed) {
  for (const bool cancelled : {false, true}) {
    Start(1);
    Train();
    h_.Poll();  // All is on the disk: the sessions may be closed.
    Kill(1);
    Pass(100);
    EXPECT_EQ(h_.State(), FINISHING);
    EXPECT_THAT(h_.shard(0).open, IsEmpty());
    EXPECT_THAT(h_.Reason(), StartsWith("waits for ps/1"));
    if (cancelled) {
      ASSERT_OK(h_.core().Cancel("latest", h_.now()));
      Pass(1);
      EXPECT_EQ(h_.State(), CANCELLED);
    } else {
      h_.Restart(1);
      Pass(3);
      EXPECT_EQ(h_.shard(1).restore.session_size(), 0);
      EXPECT_EQ(h_.State(), SUCCEEDED);
    }
  }
}

TEST_F(CoreRestoresTest, AnEndedJobGetsItsSliceBack) {
  Start(1);
  Train();
  Pass(3);
  ASSERT_EQ(h_.State(), SUCCEEDED);
  const uint64_t generation = Durability().generation();
  const size_t events = h_.Events().size();
  Kill(1);
  Pass(40);
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.Events().size(), events);
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), generation);
  EXPECT_EQ(h_.shard(1).restore.session_size(), 0);
  ASSERT_OK_AND_ASSIGN(const JobLocation location, h_.core().Locate("j-1", h_.now()));
  EXPECT_EQ(location.shard_epoch(1), 1001u);
  EXPECT_EQ(h_.Reason(), "");
}

TEST_F(CoreRestoresTest, AnEndedJobWhosePartIsGoneCannotBeExportedFromTheShards) {
  Start(1);
  Train();
  Pass(3);
  ASSERT_EQ(h_.State(), SUCCEEDED);
  h_.shard(1).generation.clear();
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_THAT(h_.core().Locate("j-1", h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("lost parameters")));
  EXPECT_EQ(h_.shard(1).restores, 1);
}

TEST_F(CoreRestoresTest, TheJobThatTrainsComesFirst) {
  Start(1);
  Train();
  Pass(3);
  ASSERT_EQ(h_.State(), SUCCEEDED);
  Start(h_.Plan(50));
  h_.Restart(1);
  Pass(1);
  EXPECT_THAT(h_.shard(1).history,
              AllOf(Contains("restore j-1:"), Contains("restore j-2: j-2/0#1")));
  EXPECT_EQ(h_.shard(1).history.back(), "restore j-1:");
}

TEST_F(CoreRestoresTest, ADeletedJobIsNotRestored) {
  Start(1);
  Train();
  Pass(3);
  Kill(1);
  Pass(5);
  ASSERT_OK(h_.core().Delete("j-1", h_.now()));
  Pass(1);
  EXPECT_EQ(h_.core().state().FindJob("j-1"), nullptr);
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restores, 0);
}

// ---- jobs that are not restored ----------------------------------------------

TEST_F(CoreRestoresTest, WithoutCheckpointsTheJobFailsAsEver) {
  JobPlan plan = h_.Plan(50);
  plan.job.mutable_checkpoint()->set_off(true);
  Start(plan);
  EXPECT_FALSE(h_.Beat(0).assignment().keep_pushes());
  EXPECT_EQ(Durability().promise(), "memory_only");
  Push();
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_EQ(h_.Reason(),
            "ps/1 (pid 101) at unix:ps1 restarted as pid 151; its slice of job j-1 is "
            "lost");
  EXPECT_EQ(h_.shard(1).restores, 0);
}

TEST_F(CoreRestoresTest, AShardThatComesBackWithoutItsFolderFailsTheJob) {
  StartWithAGeneration();
  EXPECT_TRUE(h_.Beat(0).assignment().keep_pushes());
  Kill(1);
  Pass(5);
  h_.shard(1).state_dir.clear();
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.State(), FAILED);
}

// ---- when generations are ordered --------------------------------------------

// Once both that a shard keeps have the close, no older one can bring back a session whose
// worker is gone.
TEST_F(CoreRestoresTest, TwoGenerationsFollowTheLossOfAWorker) {
  Start(h_.Plan(50));
  h_.Join(1);
  Push();
  Pass(5);  // worker/1 is silent
  ASSERT_THAT(h_.Events(), Contains("worker_lost worker/1"));
  EXPECT_EQ(Durability().generation(), 2u);
  EXPECT_EQ(Context().reason(), "worker/1 was lost");
  EXPECT_THAT(h_.shard(1).history, Contains("close j-1/1#1"));
  Pass(5);
  EXPECT_EQ(Durability().generation(), 2u);
}

TEST_F(CoreRestoresTest, NoneFollowsAWorkerThatLeft) {
  Start(h_.Plan(50));
  h_.Join(1);
  Push();
  h_.Leave(1);
  Pass(5);
  EXPECT_THAT(h_.Events(), Contains("worker_left worker/1"));
  EXPECT_EQ(h_.shard(0).orders, 0);
}

TEST_F(CoreRestoresTest, AWorkerThatWaitsGetsAGeneration) {
  Start(h_.Plan(50));
  h_.Join(1);
  h_.Beat(0, nullptr, /*waits=*/true);
  h_.core().Tick(h_.now());
  h_.Settle();
  EXPECT_EQ(h_.shard(0).orders, 1);
  EXPECT_EQ(Context().reason(), "a worker waits until its pushes are durable");
  h_.Beat(0, nullptr, true);
  h_.core().Tick(h_.now());
  h_.Settle();
  EXPECT_EQ(h_.shard(0).orders, 1) << "it waits for this one";
  h_.Pass(absl::Seconds(5), {0, 1});
  EXPECT_EQ(h_.shard(0).orders, 1) << "it does not wait any more";
}

TEST_F(CoreRestoresTest, WaitingInAnotherSessionIsNoWaiting) {
  Start(h_.Plan(50));
  h_.session_[0].set_incarnation(7);
  h_.Beat(0, nullptr, /*waits=*/true);
  h_.core().Tick(h_.now());
  h_.Settle();
  EXPECT_EQ(h_.shard(0).orders, 0);
}

TEST_F(CoreRestoresTest, TheCountsOfReplaysAreSummed) {
  Start(h_.Plan(50));
  ReplicaStats stats;
  stats.set_replayed(7);
  stats.set_away_steps(3);
  h_.Beat(0, &stats);
  EXPECT_EQ(h_.Describe().counts().replayed(), 7u);
  EXPECT_EQ(h_.Describe().counts().away_steps(), 3u);
}

TEST_F(CoreRestoresTest, RowsThatAreLostAreNamedToo) {
  StartWithAGeneration();
  h_.Join(1);
  h_.shard(1).lost = {Lost(1, 13, 20)};
  Kill(1);
  Pass(10);  // worker/1 is silent
  h_.Restart(1);
  Pass(1);
  EXPECT_THAT(EventText("pushes_lost"), HasSubstr("13 to 20 (16 records) of"));
  h_.shard(1).lost[0].set_row_pushes(8);  // of the same pushes
  h_.Restart(1);
  Pass(1);
  EXPECT_THAT(EventText("pushes_lost"), HasSubstr("13 to 20 (16 records, rows of 8 pushes) of"));
  ASSERT_EQ(Durability().lost_size(), 1);
  EXPECT_EQ(Durability().lost(0).row_pushes(), 8u);
  EXPECT_EQ(CountOf("pushes_lost worker/1"), 2);
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(CountOf("pushes_lost worker/1"), 2);
}

// All records are there, and not all rows.
TEST_F(CoreRestoresTest, RowsThatACloseHasLostAreNamed) {
  StartWithAGeneration();
  h_.Join(1);
  LostPushes lost = Lost(1, 13, 14);
  lost.clear_records();
  lost.set_row_pushes(2);
  h_.shard(1).lost_at_close["j-1/1#1"] = lost;
  Pass(8);  // worker/1 is silent
  ASSERT_EQ(Durability().lost_size(), 1);
  EXPECT_EQ(Durability().lost(0).row_pushes(), 2u);
  EXPECT_THAT(EventText("pushes_lost"), HasSubstr("13 to 14 (rows of 2 pushes) of worker/1#1"));
}

// A shard tells what a close has lost, to whoever asks again, for a few generations only.
TEST_F(CoreRestoresTest, NoGenerationIsOrderedBeforeACloseIsConfirmed) {
  StartWithAGeneration();
  h_.Join(1);
  h_.shard(1).lost_at_close["j-1/1#1"] = Lost(1, 13, 20);
  h_.shard(1).closes_unheard = true;
  Pass(8);  // worker/1 is silent
  ASSERT_EQ(CountOf("worker_lost worker/1"), 1);
  const int orders = h_.shard(1).orders;
  Push(5);
  ASSERT_OK(Ask());
  Pass(30);
  EXPECT_EQ(h_.shard(1).orders, orders);
  EXPECT_EQ(Durability().lost_size(), 0);
  h_.shard(1).closes_unheard = false;
  Pass(2);
  EXPECT_GT(h_.shard(1).orders, orders);
  ASSERT_EQ(Durability().lost_size(), 1);
  EXPECT_EQ(Durability().lost(0).from(), 13u);
}

}  // namespace
}  // namespace monsoon
