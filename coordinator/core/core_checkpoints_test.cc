// When the coordinator orders checkpoints, and how a job's end waits for the last one.
#include "coordinator/core/core_checkpoints_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreCheckpointsTest;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(CoreCheckpointsTest, ThePromiseIsOfWhatTheShardsKeep) {
  h_.KeepState();
  Start();
  EXPECT_EQ(Durability().promise(), "exactly_once");
}

TEST_F(CoreCheckpointsTest, WithoutStateFoldersAllIsAsEver) {
  Start();
  Push();
  Pass(30);
  EXPECT_THAT(Ask(), StatusIs(absl::StatusCode::kFailedPrecondition,
                              HasSubstr("no checkpoint of job j-1 (RUNNING): it is kept in memory "
                                        "only: ps/0, ps/1 have no state folder")));
  Train();
  h_.Poll();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.shard(0).orders + h_.shard(1).orders, 0);
  EXPECT_THAT(h_.Events(), Not(Contains("memory_only")));
  EXPECT_EQ(Durability().generation(), 0u);
  EXPECT_FALSE(Durability().has_age_s());
  EXPECT_EQ(Durability().promise(), "memory_only");
}

TEST_F(CoreCheckpointsTest, OneShardWithoutAFolderMeansMemoryOnly) {
  h_.shard(0).state_dir = "/state/0";
  Start();
  Push();
  Pass(30);
  EXPECT_EQ(h_.shard(0).orders + h_.shard(1).orders, 0);
  EXPECT_THAT(h_.Events(), Contains("memory_only"));
  EXPECT_EQ(EventText("memory_only"),
            "no checkpoints: ps/1 has no state folder, though others have one");
  EXPECT_THAT(Ask(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ps/1")));
  Train();
  h_.Poll();
  EXPECT_EQ(h_.State(), SUCCEEDED);
}

TEST_F(CoreCheckpointsTest, EverySoManySecondsWhileThereIsSomethingNew) {
  h_.KeepState();
  Start();
  Pass(20);
  EXPECT_EQ(h_.shard(0).orders, 0) << "nothing was applied";
  ASSERT_OK(h_.Ask(0));
  Push(3);
  Pass(1);
  ASSERT_EQ(h_.shard(0).orders, 1);
  EXPECT_EQ(Context().reason(), "every 10 s");
  EXPECT_EQ(Context().job().name(), "j");
  EXPECT_FALSE(Context().final());
  EXPECT_GT(Context().ordered_ms(), 0);
  Pass(20);
  EXPECT_EQ(h_.shard(0).orders, 1);
  Push(3);
  Pass(1);
  EXPECT_EQ(h_.shard(1).orders, 2);
  // Only the first one is an event.
  EXPECT_THAT(EventText("checkpoint"), HasSubstr("generation 1 "));
  const JobDescription::Durability durability = Durability();
  EXPECT_EQ(durability.generation(), 2u);
  EXPECT_EQ(durability.ordered(), 0u);
  EXPECT_GE(durability.age_s(), 0.1);
  EXPECT_LE(durability.age_s(), 1.1);
  // Whatever people do to the wall clock.
  for (const absl::Duration ahead : {absl::Hours(24 * 3650), -absl::Hours(24 * 3650)}) {
    h_.SetWallClockAhead(ahead);
    EXPECT_EQ(Durability().age_s(), durability.age_s());
  }
  EXPECT_EQ(durability.disk_bytes(), 4000u);
  EXPECT_THAT(durability.state_dir(), ElementsAre("ps/0: /state/0", "ps/1: /state/1"));
  EXPECT_EQ(h_.Describe().summary().disk_bytes(), 4000u);
}

TEST_F(CoreCheckpointsTest, TheContextHasTheBlocksThatAreDone) {
  h_.KeepState();
  JobPlan plan = h_.Plan(4);
  plan.job.mutable_checkpoint()->set_every_seconds(1);
  Start(plan);
  for (int i = 0; i < 4; ++i) {
    ReplicaStats stats;
    stats.set_steps(4 * i);
    ASSERT_OK(h_.Ask(0, stats));
  }
  Push();
  Pass(1.5);
  const DownpourProgress& progress = Context().downpour();
  EXPECT_EQ(progress.blocks_done(), 6u);
  EXPECT_EQ(progress.epochs_done(), 1u);
  ASSERT_EQ(progress.epoch_size(), 1);
  EXPECT_EQ(progress.epoch(0).epoch(), 1u);
  EXPECT_EQ(progress.epoch(0).blocks(), 4u);
  EXPECT_EQ(progress.epoch(0).done(0).end(), 2u);
  EXPECT_EQ(progress.examples_done(), 110u);
  EXPECT_EQ(progress.steps(), 12u);
  EXPECT_EQ(h_.shard(0).ordered["j-1"].context().SerializeAsString(),
            h_.shard(1).ordered["j-1"].context().SerializeAsString());
}

TEST_F(CoreCheckpointsTest, AfterSoManyPushes) {
  h_.KeepState();
  JobPlan plan = h_.Plan(2);
  plan.job.mutable_checkpoint()->set_every_seconds(1000);
  plan.job.mutable_checkpoint()->set_every_pushes(50);
  Start(plan);
  Push(49);
  Pass(5);
  EXPECT_EQ(h_.shard(0).orders, 0);
  h_.shard(0).version += 10;  // the other one is behind
  Pass(1);
  EXPECT_EQ(h_.shard(0).orders, 0);
  Push(1);
  Pass(1);
  EXPECT_EQ(h_.shard(0).orders, 1);
  EXPECT_EQ(Context().reason(), "every 50 pushes");
}

TEST_F(CoreCheckpointsTest, LostOrdersAndAnswersAreRepeated) {
  h_.KeepState();
  Start();
  Push();
  h_.Poll();
  ASSERT_OK_AND_ASSIGN(const CheckpointOrder order, Ask());
  EXPECT_EQ(order.generation(), 1u);
  // The first is lost on its way to ps/0, the answer of ps/1 on its way back.
  for (const ShardCommand& command : h_.core().TakeCommands(h_.now())) {
    ASSERT_EQ(command.kind, ShardCommand::Kind::kCheckpoint);
    EXPECT_EQ(command.checkpoint.term(), command.term);
    if (command.shard == 1) {
      ASSERT_OK(h_.Execute(command));
    }
    h_.core().OnCommand(command, {absl::DeadlineExceededError("lost")}, h_.now());
  }
  h_.Poll();
  EXPECT_EQ(Durability().generation(), 0u);
  EXPECT_EQ(Durability().ordered(), 1u);
  Pass(2);
  EXPECT_EQ(h_.shard(0).orders, 1);
  EXPECT_EQ(h_.shard(1).orders, 1) << "its poll shows the generation";
  EXPECT_EQ(Durability().generation(), 1u);
  EXPECT_EQ(Durability().error(), "");
}

TEST_F(CoreCheckpointsTest, AskedForMeansAfterTheRequest) {
  h_.KeepState();
  Start();
  h_.shard(1).disk_is_slow = true;
  ASSERT_OK_AND_ASSIGN(const CheckpointOrder first, Ask());
  EXPECT_EQ(first.job(), "j-1");
  EXPECT_EQ(first.generation(), 1u);
  h_.Settle();
  ASSERT_OK_AND_ASSIGN(const CheckpointOrder second, Ask());
  EXPECT_EQ(second.generation(), 2u) << "what is under way does not count";
  Pass(3);
  EXPECT_EQ(h_.shard(0).ordered["j-1"].generation(), 1u);
  h_.shard(1).Write();
  Pass(1);
  EXPECT_EQ(h_.shard(0).ordered["j-1"].generation(), 2u);
  EXPECT_EQ(Durability().generation(), 1u);
  h_.shard(1).Write();
  Pass(1);
  EXPECT_EQ(Durability().generation(), 2u);
  EXPECT_EQ(Context().reason(), "asked for");
  EXPECT_THAT(EventText("checkpoint"), AllOf(HasSubstr("generation 2"), HasSubstr("asked for")));
}

TEST_F(CoreCheckpointsTest, WhoMayNotAsk) {
  h_.KeepState();
  EXPECT_THAT(Ask("k-1"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("k-1")));
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  EXPECT_THAT(Ask(), StatusIs(absl::StatusCode::kFailedPrecondition,
                              HasSubstr("(PENDING): it has not begun to train")));
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  h_.Settle();
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_EQ(h_.shard(0).orders, 0) << "nothing was trained";
  EXPECT_THAT(Ask(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not begun")));
  JobPlan plan = h_.Plan(1);
  plan.job.mutable_checkpoint()->set_off(true);
  Start(plan);
  EXPECT_THAT(Ask(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("off: true")));
}

TEST_F(CoreCheckpointsTest, OffMeansNoneAtTheEndEither) {
  h_.KeepState();
  JobPlan plan = h_.Plan(1);
  plan.job.mutable_checkpoint()->set_off(true);
  Start(plan);
  Train();
  h_.Poll();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.shard(0).orders, 0);
}

TEST_F(CoreCheckpointsTest, AJobSucceedsOnlyWhenItsLastCheckpointIsHeld) {
  h_.KeepState();
  Start();
  Train();
  h_.shard(1).disk_error = "ps-1-of-2.g2.e1000: No space left on device";
  Pass(3);
  EXPECT_EQ(h_.State(), FINISHING);
  EXPECT_EQ(h_.Reason(),
            "waits for its last checkpoint: ps/1: ps-1-of-2.g2.e1000: No space left on device; "
            "free the disk, or cancel the job");
  EXPECT_THAT(h_.shard(0).open, IsEmpty());
  EXPECT_TRUE(Context().final());
  EXPECT_EQ(Context().reason(), "the job's end");
  EXPECT_EQ(Context().downpour().blocks_done(), 8u);
  EXPECT_EQ(Durability().generation(), 1u) << "the replica has finished";
  EXPECT_EQ(Durability().ordered(), 2u);
  EXPECT_EQ(Durability().error(), "ps/1: " + h_.shard(1).disk_error);
  // However long it takes; it is told once.
  Pass(600);
  EXPECT_EQ(h_.State(), FINISHING);
  EXPECT_EQ(std::ranges::count(h_.Events(), "checkpoint_failed ps/1"), 1);
  EXPECT_GE(h_.shard(1).orders, 400);
  EXPECT_EQ(h_.shard(0).orders, 2);
  // Those behind it say what holds it up.
  h_.Submit(h_.Plan(1));
  EXPECT_THAT(h_.Reason("j-2"), HasSubstr("; it waits for its last checkpoint: ps/1: "));
  h_.shard(1).disk_error.clear();
  Pass(3);
  EXPECT_EQ(h_.State("j-1"), SUCCEEDED);
  EXPECT_EQ(h_.Reason("j-1"), "");
  EXPECT_EQ(h_.Describe("j-1").durability().generation(), 2u);
  EXPECT_EQ(h_.Describe("j-1").durability().error(), "");
  EXPECT_THAT(h_.Events("j-1"), Contains("checkpoint"));
  EXPECT_EQ(h_.Events("j-1").back(), "ended");
}

TEST_F(CoreCheckpointsTest, TheLastOneFollowsTheOneThatIsUnderWay) {
  h_.KeepState();
  Start();
  h_.shard(0).disk_is_slow = true;
  ASSERT_OK(Ask());
  Train();
  Pass(3);
  EXPECT_EQ(h_.shard(1).ordered["j-1"].generation(), 1u);
  EXPECT_EQ(h_.State(), FINISHING);
  EXPECT_EQ(h_.Reason(), "waits for its last checkpoint");
  h_.shard(0).Write();
  Pass(1);
  EXPECT_EQ(h_.shard(1).ordered["j-1"].generation(), 2u);
  EXPECT_EQ(Context().reason(), "replicas finish");
  EXPECT_FALSE(h_.shard(0).open.empty());
  h_.shard(0).Write();
  Pass(1);
  EXPECT_EQ(h_.shard(1).ordered["j-1"].generation(), 3u);
  EXPECT_THAT(h_.shard(0).open, IsEmpty());
  EXPECT_FALSE(h_.State() == SUCCEEDED);
  h_.shard(0).Write();
  Pass(1);
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_TRUE(Context().final());
}

TEST_F(CoreCheckpointsTest, CancellingEndsTheWait) {
  h_.KeepState();
  Start();
  Train();
  h_.shard(1).disk_error = "No space left on device";
  Pass(10);
  ASSERT_EQ(h_.State(), FINISHING);
  ASSERT_OK_AND_ASSIGN(const JobSummary summary, h_.core().Cancel("j-1", h_.now()));
  EXPECT_EQ(summary.state(), CANCELLED);
  EXPECT_EQ(summary.reason(), "cancelled by a user while it waited for its last checkpoint");
  EXPECT_EQ(EventText("checkpoint_failed"),
            "the last checkpoint was not written: ps/1: No space left on device; generation 1 "
            "is the newest");
  // Nobody tries any more, until somebody asks.
  const int orders = h_.shard(1).orders;
  h_.shard(1).disk_error.clear();
  Pass(10);
  EXPECT_EQ(h_.shard(1).orders, orders);
  ASSERT_OK_AND_ASSIGN(const CheckpointOrder order, Ask());
  EXPECT_EQ(order.generation(), 2u);
  Pass(2);
  EXPECT_EQ(Durability().generation(), 2u);
  ASSERT_OK_AND_ASSIGN(const CheckpointOrder again, Ask());
  EXPECT_EQ(again.generation(), 2u) << "it has everything";
}

TEST_F(CoreCheckpointsTest, AFullDiskKeepsReplicasFromFinishing) {
  h_.KeepState();
  Start();
  h_.shard(1).disk_error = "No space left on device";
  Train();
  Pass(10);
  EXPECT_EQ(h_.State(), FINISHING);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("waits for its last checkpoint: ps/1: No space"),
                                 HasSubstr("cancel the job")));
  EXPECT_FALSE(h_.shard(0).open.empty());
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  Pass(7);
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_EQ(h_.Reason(), "cancelled by a user while it waited for its last checkpoint");
}

// ---- on_storage_failure ---------------------------------------------------------

class StorageFailureTest : public CoreCheckpointsTest {
 protected:
  void StartToGoOn(double epochs = 50) {
    h_.KeepState();
    JobPlan plan = h_.Plan(epochs);
    plan.job.mutable_checkpoint()->set_on_storage_failure(CONTINUE_IN_MEMORY);
    Start(plan);
    ASSERT_OK(h_.Ask(0));
    Push();
    Pass(12);
    ASSERT_EQ(Durability().generation(), 1u);
    h_.shard(1).disk_error = "No space left on device";
    Push();
    Pass(12);
  }
};

TEST_F(StorageFailureTest, TheJobTrainsOnWhileWorkersHaveRoom) {
  StartToGoOn();
  h_.Beat(0, nullptr, /*waits=*/true);
  EXPECT_EQ(Durability().promise(), "exactly_once");
  h_.shard(1).disk_error = "";
  Pass(3);
  EXPECT_EQ(Durability().generation(), 2u);
}

TEST_F(StorageFailureTest, WithoutRoomItGoesOnInMemoryAndSaysSo) {
  StartToGoOn();
  h_.stands_still_ = true;
  EXPECT_FALSE(h_.Beat(0, nullptr, /*waits=*/true).assignment().keep_pushes());
  EXPECT_EQ(Durability().promise(), "memory_only");
  EXPECT_THAT(EventText("memory_only"),
              AllOf(HasSubstr("CONTINUE_IN_MEMORY"), HasSubstr("ps/1: No space left on device"),
                    HasSubstr("generation 1 is the newest")));
  h_.stands_still_ = false;
  const int orders = h_.shard(0).orders;
  h_.shard(1).disk_error = "";
  Push();
  Pass(30);
  EXPECT_EQ(h_.shard(0).orders, orders) << "none is made any more";
  EXPECT_THAT(Ask(), StatusIs(absl::StatusCode::kFailedPrecondition,
                              HasSubstr("it went on in memory only: ps/1: No space")));
  h_.RestartCoordinator();
  h_.Poll();
  EXPECT_EQ(Durability().promise(), "memory_only");
  EXPECT_THAT(Durability().error(), HasSubstr("No space left on device"));
}

TEST_F(StorageFailureTest, AShardThatDiesThenFailsTheJob) {
  StartToGoOn();
  h_.stands_still_ = true;
  h_.Beat(0, nullptr, /*waits=*/true);
  h_.shard(0).alive = false;
  Pass(4);
  h_.Restart(0);
  Pass(2);
  EXPECT_EQ(h_.State(), FAILED);
}

TEST_F(StorageFailureTest, TheJobEndsWithoutItsLastCheckpoint) {
  h_.KeepState();
  JobPlan plan = h_.Plan(2);
  plan.job.mutable_checkpoint()->set_on_storage_failure(CONTINUE_IN_MEMORY);
  Start(plan);
  h_.shard(1).disk_error = "No space left on device";
  Train();
  Pass(10);
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(Durability().promise(), "memory_only");
}

TEST_F(CoreCheckpointsTest, AnEndedJobCannotBeCancelled) {
  h_.KeepState();
  Start();
  Train();
  Pass(3);
  ASSERT_EQ(h_.State(), SUCCEEDED);
  EXPECT_THAT(h_.core().Cancel("j-1", h_.now()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ended already")));
}

TEST_F(CoreCheckpointsTest, ACancelledJobIsWrittenToo) {
  h_.KeepState();
  Start();
  ASSERT_OK(h_.Ask(0));
  ASSERT_OK(h_.Ask(0));
  Push();
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  h_.Settle();
  h_.core().Tick(h_.now());
  h_.Settle();
  EXPECT_EQ(h_.shard(0).orders, 1);
  EXPECT_FALSE(Context().final());
  EXPECT_EQ(Context().reason(), "the job's end");
  EXPECT_EQ(Context().downpour().blocks_done(), 2u);
  EXPECT_EQ(h_.State(), RUNNING);
  h_.Poll();
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_EQ(h_.Reason(), "cancelled by a user");
  EXPECT_EQ(Durability().generation(), 1u);
  EXPECT_THAT(h_.Events(), Not(Contains("checkpoint_failed")));
}

TEST_F(CoreCheckpointsTest, ACancelledJobDoesNotWaitLongForTheDisk) {
  h_.KeepState();
  Start();
  Push();
  h_.shard(0).disk_error = "Input/output error";
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  Pass(4);
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.Reason(), "cancelled by a user");
  Pass(2);
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_THAT(h_.Events(), Contains("checkpoint_failed"));
  EXPECT_THAT(EventText("checkpoint_failed"), EndsWith("not written: ps/0: Input/output error"));
}

TEST_F(CoreCheckpointsTest, AFailedJobIsWrittenToo) {
  h_.KeepState();
  Start();
  ASSERT_OK(h_.Fail(0, ReportFailureRequest::DIVERGED, "loss is nan"));
  Pass(2);
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("loss is nan"));
  EXPECT_EQ(Durability().generation(), 1u);
  EXPECT_FALSE(Context().final());
}

TEST_F(CoreCheckpointsTest, ASilentShardIsWaitedForAtTheEnd) {
  h_.KeepState();
  Start();
  Train();
  // Before it was told of the last checkpoint.
  h_.shard(1).silent = true;
  h_.shard(1).generation.clear();
  Pass(10);
  EXPECT_EQ(h_.State(), FINISHING);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("waits for its last checkpoint, and for ps/1"),
                                 HasSubstr("silent for")));
  h_.shard(1).silent = false;
  Pass(3);
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.shard(1).generation["j-1"], Durability().generation());
}

TEST_F(CoreCheckpointsTest, NoPeriodicOneWhileAShardIsSilent) {
  h_.KeepState();
  Start();
  Push();
  Pass(5);
  h_.shard(1).silent = true;
  Pass(15);
  EXPECT_EQ(h_.shard(0).orders, 0);
  h_.shard(1).silent = false;
  Pass(1);
  EXPECT_EQ(h_.shard(0).orders, 1);
}

TEST_F(CoreCheckpointsTest, ASecondJobHasNumbersOfItsOwn) {
  h_.KeepState();
  Start(1);
  Train();
  Pass(2);
  ASSERT_EQ(h_.State(), SUCCEEDED);
  Start(1);
  ASSERT_OK_AND_ASSIGN(const CheckpointOrder order, Ask());
  EXPECT_EQ(order.job(), "j-2");
  EXPECT_EQ(order.generation(), 1u);
  Pass(1);
  EXPECT_EQ(h_.shard(0).ordered["j-2"].job_term(), h_.job_term_);
  // The parts of an ended job are not the shard's to remove.
  const KnownJobs& known = h_.shard(0).ordered["j-2"].known_jobs();
  ASSERT_EQ(known.job_size(), 2);
  EXPECT_EQ(known.job(0).job(), "j-1");
  EXPECT_EQ(known.job(0).job_term(), h_.job_term_);
  EXPECT_EQ(known.job(1).job(), "j-2");
}

}  // namespace
}  // namespace monsoon
