// The coordinator dies, and another one begins with the state that was on the disk.
#include "coordinator/core/core_restores_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreHarness;
using ::monsoon::testing::CoreRestoresTest;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CoreRecoveryTest : public CoreRestoresTest {
 protected:
  // The coordinator dies and is there again, and has heard from everybody.
  void RestartAndPoll() {
    h_.RestartCoordinator();
    h_.Poll();
    h_.Settle();
  }
  static ReplicaStats FortySteps() {
    ReplicaStats stats;
    stats.set_steps(40);
    stats.set_examples(200);
    stats.set_pushes(40);
    return stats;
  }
  std::vector<std::string> EventKinds() { return h_.Events(); }
  // Both workers train until they are told to finish.
  void TrainBoth() {
    std::set<uint32_t> left = {0, 1};
    for (int i = 0; i < 400 && !left.empty(); ++i) {
      const uint32_t worker = static_cast<uint32_t>(i % 2);
      if (left.contains(worker)) {
        ASSERT_OK_AND_ASSIGN(const NextWorkReply reply, h_.Ask(worker));
        if (reply.has_finish()) {
          left.erase(worker);
        }
      }
    }
    EXPECT_THAT(left, IsEmpty());
  }
};

// ---- a job that trains -------------------------------------------------------

TEST_F(CoreRecoveryTest, ARunningJobGoesOnInItsSessions) {
  StartWithAGeneration();
  h_.Join(1);
  const SessionKey session = h_.session_[0];
  const double epoch = h_.Describe().progress().epoch();
  RestartAndPoll();
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_GE(h_.Describe().progress().epoch(), epoch);
  const HeartbeatReply reply = h_.Beat(0);
  EXPECT_FALSE(reply.rejoin());
  EXPECT_EQ(reply.assignment().session().SerializeAsString(), session.SerializeAsString());
  EXPECT_FALSE(h_.Beat(1).rejoin());
  ASSERT_OK(h_.Ask(0));
  h_.Pass(absl::Seconds(10), {0, 1});
  EXPECT_THAT(EventKinds(),
              AllOf(Contains("coordinator_restarted coordinator/0"),
                    Not(Contains("worker_lost worker/0")), Not(Contains("shard_restarted ps/0"))));
  EXPECT_EQ(h_.shard(0).restores, 0);
}

TEST_F(CoreRecoveryTest, BlocksThatAWorkerHoldsGoToNobodyElse) {
  Start(h_.Plan(1));
  h_.Join(1);
  ASSERT_OK(h_.Ask(0));
  ASSERT_OK(h_.Ask(1));
  ASSERT_EQ(h_.held_[0].size() + h_.held_[1].size(), 4u);
  RestartAndPoll();
  // All four blocks of the only epoch are held.
  h_.Beat(0);
  h_.Beat(1);
  const std::vector<BlockId> held = std::exchange(h_.held_[1], {});
  ASSERT_OK_AND_ASSIGN(const NextWorkReply none, h_.Ask(1));
  EXPECT_FALSE(none.has_train()) << none.ShortDebugString();
  h_.held_[1] = held;
  TrainBoth();
  EXPECT_EQ(h_.Describe().data().blocks_done(), 4u);
}

TEST_F(CoreRecoveryTest, AnAnswerThatWasNotOnTheDiskIsGivenAnew) {
  Start(h_.Plan(1));
  ASSERT_OK(h_.Ask(0));
  const size_t before = h_.updates_.size();
  const std::vector<BlockId> held = h_.held_[0];
  ASSERT_OK_AND_ASSIGN(const NextWorkReply lost, h_.Ask(0));
  h_.RestartCoordinator(before);  // dies before it left
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.Describe().data().blocks_done(), 0u);
  h_.held_[0] = held;
  --h_.request_[0];
  ASSERT_OK_AND_ASSIGN(const NextWorkReply again, h_.Ask(0));
  EXPECT_EQ(again.SerializeAsString(), lost.SerializeAsString());
  EXPECT_EQ(h_.Describe().data().blocks_done(), held.size());
}

TEST_F(CoreRecoveryTest, AnswersToWaitMayBeForgotten) {
  Start(h_.Plan(1));
  h_.Join(1);
  ASSERT_OK(h_.Ask(0));
  ASSERT_OK(h_.Ask(1));
  const std::vector<BlockId> held = std::exchange(h_.held_[0], {});
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const NextWorkReply reply, h_.Ask(0));
    ASSERT_FALSE(reply.has_train());
  }
  RestartAndPoll();
  h_.held_[0] = held;
  TrainBoth();
  EXPECT_EQ(h_.Describe().data().blocks_done(), 4u);
}

TEST_F(CoreRecoveryTest, FiguresOfClosedSessionsStay) {
  StartWithAGeneration();
  ReplicaStats stats;
  stats.set_steps(40);
  stats.set_examples(200);
  stats.set_pushes(40);
  (*stats.mutable_staleness())[2] = 40;
  h_.Beat(0, &stats);
  ASSERT_OK(h_.Fail(0, ReportFailureRequest::REPLICA, "trouble"));
  h_.Settle();
  h_.Beat(0);
  h_.Join(0);
  RestartAndPoll();
  h_.Beat(0);
  ReplicaStats more;
  more.set_steps(2);
  more.set_pushes(2);
  h_.Beat(0, &more);
  const JobDescription description = h_.Describe();
  EXPECT_EQ(description.counts().pushes(), 42u);
  EXPECT_EQ(description.counts().steps(), 42u);
  EXPECT_EQ(description.worker(0).pushes(), 42u);
}

// A replica that was told to finish tells the next life of the coordinator nothing.
TEST_F(CoreRecoveryTest, FiguresOfReplicasThatFinishStay) {
  Start(1);
  h_.shard(1).disk_is_slow = true;
  const ReplicaStats stats = FortySteps();
  h_.Beat(0, &stats);
  Train();
  Pass(5);
  ASSERT_EQ(h_.State(), FINISHING);
  RestartAndPoll();
  h_.Beat(0);
  EXPECT_EQ(h_.Describe().counts().steps(), 40u);
  h_.shard(1).disk_is_slow = false;
  Pass(5);
  ASSERT_EQ(h_.State(), SUCCEEDED);
  RestartAndPoll();
  EXPECT_EQ(h_.Describe().counts().steps(), 40u);
  EXPECT_EQ(h_.Describe().counts().pushes(), 40u);
  EXPECT_EQ(h_.Describe().worker(0).pushes(), 40u);
}

TEST_F(CoreRecoveryTest, FiguresOfSessionsThatAreBeingClosedStay) {
  StartWithAGeneration();
  const ReplicaStats stats = FortySteps();
  h_.Beat(0, &stats);
  h_.shard(1).silent = true;
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  h_.Settle();
  RestartAndPoll();
  h_.shard(1).silent = false;
  Pass(1);
  ASSERT_EQ(h_.State(), CANCELLED);
  EXPECT_EQ(h_.Describe().counts().steps(), 40u);
}

// ---- workers -----------------------------------------------------------------

TEST_F(CoreRecoveryTest, NobodyIsLostBeforeItsTimeSinceTheRestart) {
  StartWithAGeneration();
  h_.now_ += absl::Seconds(60);  // nobody was there to hear it
  RestartAndPoll();
  h_.Pass(absl::Seconds(2.9));
  EXPECT_THAT(EventKinds(), Not(Contains("worker_lost worker/0")));
  EXPECT_FALSE(h_.Beat(0).rejoin());
  h_.Pass(absl::Seconds(3.2));
  EXPECT_THAT(EventKinds(), Contains("worker_lost worker/0"));
}

TEST_F(CoreRecoveryTest, AWorkerThatWasStartedAnewMeanwhileJoinsAtOnce) {
  StartWithAGeneration();
  RestartAndPoll();
  h_.incarnation_[0] = 0;
  h_.Join(0);
  EXPECT_EQ(h_.session_[0].incarnation(), 2u);
  EXPECT_THAT(h_.shard(0).history, Contains("close j-1/0#1"));
}

TEST_F(CoreRecoveryTest, AnIncarnationOfAnotherStateIsNotTakenForOneOfThis) {
  StartWithAGeneration();
  const uint64_t incarnation = h_.incarnation_[0];
  const uint64_t term = h_.term_[0];
  h_.RestartCoordinator(0);  // its state is gone
  // Another process comes first, and gets the same number once more.
  h_.incarnation_[0] = 0;
  h_.Beat(0);
  EXPECT_EQ(h_.incarnation_[0], incarnation);
  EXPECT_NE(h_.term_[0], term);
  h_.term_[0] = term;
  EXPECT_TRUE(h_.Beat(0).rejoin());
}

TEST_F(CoreRecoveryTest, AnIncarnationThatIsHeldUnderALostStateIsNobodyElses) {
  StartWithAGeneration();
  for (int again = 0; again < 3; ++again) {
    h_.incarnation_[0] = 0;
    h_.Beat(0);
  }
  const uint64_t held = h_.incarnation_[0];
  ASSERT_GT(held, 2u);
  h_.RestartCoordinator(0);
  EXPECT_TRUE(h_.Beat(0).rejoin());
  h_.Beat(0);
  EXPECT_EQ(h_.incarnation_[0], held + 1);
}

TEST_F(CoreRecoveryTest, AWorkerThatTheClusterFileHasNoMoreIsLost) {
  StartWithAGeneration();
  h_.Join(1);
  h_.cluster_.mutable_worker()->RemoveLast();
  RestartAndPoll();
  EXPECT_THAT(EventKinds(), Contains("worker_lost worker/1"));
  EXPECT_THAT(h_.shard(0).history, Contains("close j-1/1#1"));
  h_.Beat(0);
  ASSERT_OK(h_.Ask(0));
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(CoreRecoveryTest, AfterALossTwoGenerationsFollowWhoeverOrdersThem) {
  StartWithAGeneration();
  h_.Join(1);
  const uint64_t before = Durability().generation();
  h_.shard(1).silent = true;  // the closing of the session cannot be confirmed
  ASSERT_OK(h_.Fail(1, ReportFailureRequest::REPLICA, "trouble"));
  h_.Settle();
  h_.RestartCoordinator();
  h_.shard(1).silent = false;
  h_.shard(1).disk_is_slow = h_.shard(0).disk_is_slow = false;
  Push(3);
  h_.Poll();
  h_.Settle();
  h_.Beat(0);
  Pass(2);
  EXPECT_GE(Durability().generation(), before + 2);
  EXPECT_THAT(h_.shard(1).history, Contains("close j-1/1#1"));
}

// ---- shards ------------------------------------------------------------------

TEST_F(CoreRecoveryTest, AShardThatWasStartedAnewMeanwhileIsRestored) {
  StartWithAGeneration();
  h_.Restart(1);
  RestartAndPoll();
  EXPECT_EQ(h_.shard(1).history.back(), "restore j-1: j-1/0#1");
  EXPECT_THAT(EventKinds(),
              AllOf(Contains("shard_restarted ps/1"), Contains("shard_restored ps/1")));
  EXPECT_EQ(h_.Describe().counts().restores(), 1u);
  EXPECT_EQ(h_.Beat(0).assignment().shard_epoch(1), h_.shard(1).epoch);
  RestartAndPoll();
  EXPECT_EQ(h_.shard(1).restores, 1);
  EXPECT_EQ(h_.Describe().counts().restores(), 1u);
}

TEST_F(CoreRecoveryTest, AJobThatIsKeptInMemoryFailsWhenItsShardIsGone) {
  for (uint32_t i = 0; i < 2; ++i) {
    h_.shard(i).state_dir = "";
  }
  Start();
  ASSERT_OK(h_.Ask(0));
  h_.Restart(1);
  RestartAndPoll();
  h_.Beat(0);
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("its slice of job j-1 is lost"));
}

TEST_F(CoreRecoveryTest, ASilentShardIsWaitedForAndNothingIsDecidedWithoutIt) {
  StartWithAGeneration();
  h_.shard(1).silent = true;
  RestartAndPoll();
  h_.Pass(absl::Seconds(20), {0});
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_THAT(h_.Reason(), HasSubstr("ps/1"));
  h_.Pass(absl::Seconds(20), {0});
  EXPECT_EQ(h_.State(), RUNNING) << "its disk has all of it";
  h_.shard(1).silent = false;
  Pass(1);
  EXPECT_EQ(h_.Reason(), "");
}

// ---- ends --------------------------------------------------------------------

TEST_F(CoreRecoveryTest, AJobThatWaitedForItsLastCheckpointStillDoes) {
  Start(1);
  h_.shard(1).disk_is_slow = true;
  Train();
  Pass(5);
  ASSERT_EQ(h_.State(), FINISHING);
  RestartAndPoll();
  h_.Beat(0);
  Pass(5);
  EXPECT_EQ(h_.State(), FINISHING) << h_.Reason();
  h_.shard(1).disk_is_slow = false;
  Pass(5);
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_TRUE(Context(1).final());
}

TEST_F(CoreRecoveryTest, AJobThatHasEndedKeepsItsEnd) {
  Start(1);
  Train();
  Pass(5);
  ASSERT_EQ(h_.State(), SUCCEEDED);
  const JobDescription before = h_.Describe();
  h_.RestartCoordinator(h_.updates_.size());
  h_.Poll();
  h_.Settle();
  h_.now_ += absl::Seconds(100);
  const JobDescription after = h_.Describe();
  EXPECT_EQ(after.summary().state(), SUCCEEDED);
  EXPECT_EQ(after.summary().elapsed_s(), before.summary().elapsed_s());
  EXPECT_EQ(after.data().blocks_done(), before.data().blocks_done());
  EXPECT_EQ(after.event_size(), before.event_size());
  EXPECT_EQ(after.durability().generation(), before.durability().generation());
  EXPECT_OK(h_.core().Locate("j-1", h_.now()));
}

TEST_F(CoreRecoveryTest, ACancelledJobGoesOnToItsEnd) {
  StartWithAGeneration();
  h_.shard(1).silent = true;
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  h_.Settle();
  h_.RestartCoordinator();
  h_.Poll();
  h_.Settle();
  EXPECT_THAT(h_.shard(0).history, Contains("close j-1/0#1"));
  h_.shard(1).silent = false;
  Pass(1);
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_THAT(h_.shard(1).history, Contains("close j-1/0#1"));
  EXPECT_THAT(h_.shard(0).open, IsEmpty());
}

// ---- jobs that have not begun, and are no more --------------------------------

TEST_F(CoreRecoveryTest, TheQueueStays) {
  StartWithAGeneration();
  EXPECT_EQ(h_.Submit(h_.Plan(1)), "j-2");
  RestartAndPoll();
  EXPECT_EQ(h_.core().List(h_.now()).job_size(), 2);
  EXPECT_THAT(h_.Reason("j-2"), HasSubstr("it is number 2 in the queue"));
  EXPECT_EQ(h_.Submit(h_.Plan(1)), "j-3") << "no number is given twice";
}

TEST_F(CoreRecoveryTest, ARepeatedSubmissionIsKnown) {
  ASSERT_OK(h_.core().Submit(h_.Plan(1), {.client_id = "x"}, h_.now()));
  RestartAndPoll();
  ASSERT_OK_AND_ASSIGN(const SubmitReply again,
                       h_.core().Submit(h_.Plan(1), {.client_id = "x"}, h_.now()));
  EXPECT_EQ(again.job(), "j-1");
  EXPECT_EQ(h_.core().List(h_.now()).job_size(), 1);
}

TEST_F(CoreRecoveryTest, SlicesThatWereBeingMadeAreMade) {
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.core().TakeCommands(h_.now());  // lost with the coordinator
  RestartAndPoll();
  EXPECT_TRUE(h_.shard(0).jobs.contains("j-1"));
  EXPECT_TRUE(h_.shard(1).jobs.contains("j-1"));
  h_.Join(0);
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(CoreRecoveryTest, AClientThatWritesParametersGoesOn) {
  h_.Submit(h_.Plan(1), /*init=*/true);
  h_.Poll();
  h_.Settle();
  ASSERT_EQ(h_.State(), INITIALIZING);
  RestartAndPoll();
  EXPECT_EQ(h_.State(), INITIALIZING);
  EXPECT_OK(h_.core().Locate("j-1", h_.now()));
  EXPECT_OK(h_.core().Start("j-1", h_.now()));
  h_.Join(0);
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(CoreRecoveryTest, AJobThatWasBeingDeletedIs) {
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  ASSERT_OK(h_.core().Delete("j-1", h_.now()));
  h_.RestartCoordinator();
  EXPECT_EQ(h_.core().TakeCommands(h_.now()).size(), 0u) << "they have not said what they heard";
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.core().List(h_.now()).job_size(), 0);
  EXPECT_THAT(h_.shard(0).jobs, IsEmpty());
}

// ---- another cluster file ------------------------------------------------------

TEST_F(CoreRecoveryTest, AJobOfAnotherNumberOfShardsEndsAndCanBeResumed) {
  StartWithAGeneration();
  h_.cluster_.add_ps()->set_address("unix:ps2");
  h_.shards_.resize(3);
  h_.shard(2).pid = 102;
  h_.KeepState();
  RestartAndPoll();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("on 2 parameter servers, and the cluster file has 3"),
                                 HasSubstr("submit --resume=j-1")));
  EXPECT_TRUE(h_.Beat(0).rejoin());
  h_.Pass(absl::Seconds(1), {0});
  EXPECT_EQ(h_.Describe().shard_size(), 0);
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  h_.Join(0);
  EXPECT_EQ(h_.State(), RUNNING);
  RestartAndPoll();
  ASSERT_OK(h_.core().Delete("j-1", h_.now()));
  h_.Settle();
  EXPECT_EQ(h_.core().List(h_.now()).job_size(), 1);
}

TEST_F(CoreRecoveryTest, TheSameWithFewerShards) {
  StartWithAGeneration();
  h_.cluster_.mutable_ps()->RemoveLast();
  h_.shards_.pop_back();
  RestartAndPoll();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("on 2 parameter servers, and the cluster file has 1"));
  EXPECT_TRUE(h_.Beat(0).rejoin());
  h_.Pass(absl::Seconds(40), {0});
  h_.Restart(0);
  h_.Pass(absl::Seconds(1), {0});
  EXPECT_FALSE(h_.core().Cancel("j-1", h_.now()).ok()) << "it has ended already";
  ASSERT_OK(h_.core().Delete("j-1", h_.now()));
  h_.Settle();
  EXPECT_EQ(h_.core().List(h_.now()).job_size(), 0);
}

// ---- the journal ---------------------------------------------------------------

TEST_F(CoreRecoveryTest, PeopleAreToldThatTheStateCannotBeWritten) {
  StartWithAGeneration();
  h_.core().journal()->NoteTrouble("cannot write /x/state.sqlite: No space left on device");
  EXPECT_EQ(h_.Reason(),
            "waits for the coordinator to write its state: cannot write /x/state.sqlite: No space "
            "left on device");
  h_.core().journal()->NoteTrouble("");
  EXPECT_EQ(h_.Reason(), "");
}

}  // namespace
}  // namespace monsoon
