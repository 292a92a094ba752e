// The core towards replicas: sessions, losses, failures and figures.
#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/core_harness.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreHarness;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

class CoordinatorReplicasTest : public ::testing::Test {
 protected:
  // A job that trains with workers 0..workers-1.
  void StartTraining(uint32_t workers, double epochs = 2) {
    h_.Submit(h_.Plan(epochs));
    h_.Poll();
    h_.Settle();
    for (uint32_t worker = 0; worker < workers; ++worker) {
      h_.Join(worker);
    }
    ASSERT_EQ(h_.State(), RUNNING);
  }

  CoreHarness h_{2, 3};
};

TEST_F(CoordinatorReplicasTest, AssignmentOnlyAfterEveryShardOpenedTheSession) {
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  h_.Beat(0);
  for (const ShardCommand& command : h_.core().TakeCommands(h_.now())) {
    EXPECT_FALSE(h_.Beat(0).has_assignment());
    ASSERT_EQ(command.kind, ShardCommand::Kind::kOpenSession);
    h_.core().OnCommand(command, {h_.Execute(command), 0}, h_.now());
  }
  EXPECT_TRUE(h_.Beat(0).has_assignment());
}

TEST_F(CoordinatorReplicasTest, AWorkerWithoutASessionAsksSooner) {
  EXPECT_EQ(h_.Beat(0).heartbeat_ms(), 50u);
  StartTraining(2);
  EXPECT_EQ(h_.Beat(0).heartbeat_ms(), 500u);
  EXPECT_EQ(h_.Beat(2).heartbeat_ms(), 50u);
}

TEST_F(CoordinatorReplicasTest, ManyIdleWorkersShareTheirQuestions) {
  CoreHarness many(1, 200);
  EXPECT_EQ(many.Beat(0).heartbeat_ms(), 400u);  // 500 a second of all
  CoreHarness more(1, 1000);
  EXPECT_EQ(more.Beat(0).heartbeat_ms(), 500u);
}

TEST_F(CoordinatorReplicasTest, ADrainedWorkerIsToldUntilItLeavesAndGetsNoNewSession) {
  StartTraining(2, /*epochs=*/5);
  EXPECT_FALSE(h_.Beat(1).drain());
  ASSERT_OK_AND_ASSIGN(const TaskStatus told, h_.core().Drain(1));
  EXPECT_EQ(told.task(), "worker/1");
  EXPECT_EQ(told.state(), "DRAINING");
  EXPECT_TRUE(h_.Beat(1).drain());
  EXPECT_TRUE(h_.Beat(1).has_assignment()) << "it finishes its push first";
  EXPECT_FALSE(h_.Beat(0).drain());
  // The order outlives the coordinator.
  h_.RestartCoordinator();
  h_.Poll();
  h_.Settle();
  EXPECT_TRUE(h_.Beat(1).drain());
  // It leaves; the other one goes on, and it may come back.
  h_.Leave(1);
  h_.Settle();
  EXPECT_THAT(h_.Events(), Contains("worker_left worker/1"));
  EXPECT_TRUE(h_.Ask(0)->has_train());
  EXPECT_THAT(h_.core().Drain(1).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("worker/1 is not there")));
  h_.incarnation_[1] = 0;  // a new process
  h_.Join(1);
  EXPECT_FALSE(h_.Beat(1).drain());
}

TEST_F(CoordinatorReplicasTest, AWorkerThatIsDrainedWhileIdleJoinsNoJob) {
  h_.Beat(0);
  h_.Beat(1);
  ASSERT_OK(h_.core().Drain(1));
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  EXPECT_TRUE(h_.Beat(0).has_assignment());
  EXPECT_FALSE(h_.Beat(1).has_assignment());
  EXPECT_TRUE(h_.Beat(1).drain());
}

TEST_F(CoordinatorReplicasTest, ClosesALostWorkersSessionBeforeItsBlocksAreGivenAway) {
  StartTraining(2, /*epochs=*/1);
  ASSERT_OK(h_.Ask(0));
  ASSERT_OK(h_.Ask(1));  // All four blocks are held.
  const std::vector<BlockId> lost_blocks = h_.held_[1];
  h_.now_ += absl::Seconds(2);
  h_.Beat(0);
  h_.Poll();
  h_.now_ += absl::Seconds(1.1);
  h_.Poll();
  h_.core().Tick(h_.now());  // worker/1 is lost now.
  EXPECT_THAT(h_.Events(), Contains("worker_lost worker/1"));
  const std::vector<ShardCommand> commands = h_.core().TakeCommands(h_.now());
  ASSERT_EQ(commands.size(), 2u);
  for (const ShardCommand& command : commands) {
    EXPECT_EQ(command.kind, ShardCommand::Kind::kCloseSession);
    // Some shard still takes its pushes: its blocks stay with it.
    EXPECT_EQ(h_.Describe().data().blocks_released(), 0u);
    EXPECT_TRUE(h_.Ask(0)->has_wait());
    h_.core().OnCommand(command, {h_.Execute(command), 0}, h_.now());
  }
  EXPECT_EQ(h_.Describe().data().blocks_released(), 2u);
  EXPECT_TRUE(h_.Ask(0)->has_train());
  EXPECT_EQ(h_.held_[0].size(), 2u);
  // The woken worker is refused, joins again, and works as a new incarnation.
  EXPECT_THAT(h_.Ask(1).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("j-1/worker/1#1")));
  EXPECT_TRUE(h_.Beat(1).rejoin());
  h_.Join(1);
  EXPECT_EQ(h_.session_[1].incarnation(), 2u);
  EXPECT_THAT(h_.Events(), Contains("worker_rejoined worker/1"));
  ASSERT_OK(h_.Ask(1));
  h_.TrainToTheEnd(0);
  EXPECT_EQ(h_.done_.size(), 4u);
}

TEST_F(CoordinatorReplicasTest, NobodyIsLostByAGapOfTheCoordinators) {
  StartTraining(2, /*epochs=*/1);
  ASSERT_OK(h_.Ask(0));
  h_.now_ += absl::Seconds(35);
  h_.core().ForgiveSilence(h_.now().now);
  h_.core().Tick(h_.now());
  h_.now_ += absl::Seconds(2.9);
  h_.core().Tick(h_.now());
  EXPECT_THAT(h_.Events(), Not(Contains(HasSubstr("lost"))));
  EXPECT_THAT(h_.Events(), Not(Contains(HasSubstr("shard_silent"))));
  h_.Poll();
  h_.Beat(0);
  h_.now_ += absl::Seconds(0.2);
  h_.core().Tick(h_.now());  // the other one has had its whole deadline
  EXPECT_THAT(h_.Events(), Contains("worker_lost worker/1"));
  EXPECT_THAT(h_.Events(), Not(Contains("worker_lost worker/0")));
}

TEST_F(CoordinatorReplicasTest, AShardThatCannotCloseDelaysTheBlocks) {
  StartTraining(2, 1);
  ASSERT_OK(h_.Ask(0));
  ASSERT_OK(h_.Ask(1));
  h_.Pass(absl::Seconds(2.5), {0});
  h_.shard(1).alive = false;
  h_.Pass(absl::Seconds(1), {0});
  EXPECT_THAT(h_.Events(), Contains("worker_lost worker/1"));
  EXPECT_EQ(h_.Describe().data().blocks_released(), 0u);
  h_.shard(1).alive = true;
  h_.Pass(absl::Seconds(1), {0});
  EXPECT_EQ(h_.Describe().data().blocks_released(), 2u);
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(CoordinatorReplicasTest, FailuresEndTheJobOrOnlyTheReplica) {
  StartTraining(2);
  ASSERT_OK(h_.Fail(1, ReportFailureRequest::REPLICA, "out of memory"));
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_TRUE(h_.Beat(1).rejoin());
  h_.Settle();
  h_.Join(1);
  EXPECT_EQ(h_.session_[1].incarnation(), 2u);
  ASSERT_OK(h_.Fail(0, ReportFailureRequest::DIVERGED, "step 7: conv1/weight is not finite"));
  h_.Settle();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_EQ(h_.Reason(), "diverged: worker/0: step 7: conv1/weight is not finite");
  ASSERT_OK(h_.Fail(1, ReportFailureRequest::REPLICA, "too late"));  // Ended: ignored.

  h_.Submit(h_.Plan(1));
  h_.Settle();
  h_.Beat(0);
  ASSERT_OK(h_.Fail(0, ReportFailureRequest::DATA, "worker/0: train.gz is truncated"));
  h_.Settle();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_EQ(h_.Reason(), "data: worker/0: train.gz is truncated");
}

TEST_F(CoordinatorReplicasTest, AReplicaThatFailsAgainAndAgainIsLeftOut) {
  StartTraining(1);
  for (int i = 0; i < kMaxReplicaFailures; ++i) {
    ASSERT_EQ(h_.State(), RUNNING);
    ASSERT_OK(h_.Fail(0, ReportFailureRequest::REPLICA, "broken"));
    h_.Settle();
    h_.Beat(0);  // Rejoin.
    h_.Beat(0);
    h_.Settle();
    h_.Beat(0);
  }
  EXPECT_FALSE(h_.Beat(0).has_assignment());
  h_.Pass(absl::Seconds(61), {0});
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("no worker for 60 s"), HasSubstr("broken")));
}

TEST_F(CoordinatorReplicasTest, WaitsABoundedTimeForWorkersToRejoin) {
  StartTraining(1);
  h_.Pass(absl::Seconds(30));
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_THAT(h_.Events(), IsSupersetOf({"worker_lost worker/0", "no_worker"}));
  h_.Beat(0);
  h_.Join(0);
  h_.Pass(absl::Seconds(50), {0});
  EXPECT_EQ(h_.State(), RUNNING);
  h_.Pass(absl::Seconds(70));
  EXPECT_EQ(h_.State(), FAILED);
}

TEST_F(CoordinatorReplicasTest, OtherDataIsRefusedByName) {
  StartTraining(2);
  ReplicaStats stats;
  stats.set_steps(1);
  stats.set_train_fingerprint(0xabc);
  ASSERT_OK(h_.Ask(0, stats));
  EXPECT_EQ(h_.Beat(1).assignment().train_fingerprint(), 0xabcu);
  stats.set_train_fingerprint(0xdef);
  EXPECT_FALSE(h_.Ask(1, stats).ok());
  h_.Settle();
  EXPECT_EQ(h_.State(), RUNNING);
  const JobDescription description = h_.Describe();
  EXPECT_THAT(description.event().rbegin()->text(),
              AllOf(HasSubstr("worker/1 has other training data"), HasSubstr("worker/0")));
  h_.Beat(1);
  h_.Beat(1);
  h_.Settle();
  EXPECT_FALSE(h_.Beat(1).has_assignment());
}

TEST_F(CoordinatorReplicasTest, AWorkerOfUnfitDevicesIsLeftOutAtOnce) {
  StartTraining(3);
  ASSERT_OK(h_.Fail(1, ReportFailureRequest::UNFIT_DEVICE, "GPU 0 does not compute BFLOAT16"));
  h_.Settle();
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_THAT(h_.Events(), Contains("worker_refused worker/1"));
  h_.Beat(1);
  h_.Beat(1);
  h_.Settle();
  EXPECT_FALSE(h_.Beat(1).has_assignment());
  ASSERT_OK(h_.Fail(2, ReportFailureRequest::UNFIT_DEVICE, "GPU 2 does not compute BFLOAT16"));
  EXPECT_EQ(h_.State(), RUNNING);
  // With the last one the job ends, and does not wait for a worker that can never compute.
  ASSERT_OK(h_.Fail(0, ReportFailureRequest::UNFIT_DEVICE, "GPU 1 does not compute BFLOAT16"));
  h_.Settle();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_EQ(h_.Reason(),
            "every worker is left out of this job; last: worker/0: GPU 1 does not compute "
            "BFLOAT16");
}

TEST_F(CoordinatorReplicasTest, AReplicaThatFindsItsDataToBeOtherIsExcluded) {
  StartTraining(2, 1);
  const std::string text = "worker/1 reads other data than the job's first replica";
  ASSERT_OK(h_.Fail(1, ReportFailureRequest::OTHER_DATA, text));
  h_.Settle();
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_THAT(h_.Events(), Contains("worker_refused worker/1"));
  EXPECT_EQ(h_.Describe().event().rbegin()->text(), text);
  h_.Beat(1);
  h_.Settle();
  EXPECT_FALSE(h_.Beat(1).has_assignment());
  h_.TrainToTheEnd(0);
  EXPECT_EQ(h_.done_.size(), 4u);
}

TEST_F(CoordinatorReplicasTest, LeavingWorkerGivesItsBlocksAway) {
  StartTraining(2, 1);
  ASSERT_OK(h_.Ask(0));
  ASSERT_OK(h_.Ask(1));
  h_.Leave(1);
  h_.Settle();
  EXPECT_THAT(h_.Events(), Contains("worker_left worker/1"));
  EXPECT_EQ(h_.Describe().data().blocks_released(), 2u);
  h_.TrainToTheEnd(0);
  EXPECT_EQ(h_.done_.size(), 4u);
}

TEST_F(CoordinatorReplicasTest, FinalEvaluatorLost) {
  JobPlan plan = h_.Plan(1);
  plan.job.mutable_test();
  h_.Submit(plan);
  h_.Poll();
  h_.Settle();
  h_.Join(0);
  h_.Join(1);
  uint32_t evaluator = 9;
  for (int i = 0; i < 20 && evaluator == 9; ++i) {
    ASSERT_OK_AND_ASSIGN(const NextWorkReply reply, h_.Ask(i % 2));
    evaluator = reply.has_evaluate() ? i % 2 : 9;
  }
  ASSERT_NE(evaluator, 9u);
  EXPECT_EQ(h_.State(), FINISHING);
  const uint32_t other = 1 - evaluator;
  h_.Pass(absl::Seconds(4), {other});
  h_.TrainToTheEnd(other);
  h_.Settle();
  h_.Poll();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.Describe().final_test_accuracy(), 0.9);
  EXPECT_EQ(h_.Describe().final_loss(), 0.5);
}

TEST_F(CoordinatorReplicasTest, ScriptedStalenessSkewAndWidth) {
  StartTraining(2);
  // Worker 0 reports in two steps, worker 1 is lost after its report.
  ReplicaStats stats;
  stats.set_pushes(3);
  (*stats.mutable_staleness())[0] = 1;
  (*stats.mutable_staleness())[1] = 2;
  (*stats.mutable_fetch_width())[0] = 3;
  h_.Beat(0, &stats);
  stats.set_pushes(6);
  (*stats.mutable_staleness())[1] = 5;
  (*stats.mutable_fetch_width())[2] = 1;
  ASSERT_OK(h_.Ask(0, stats));
  ReplicaStats lost;
  lost.set_pushes(2);
  (*lost.mutable_staleness())[4] = 2;
  h_.Beat(1, &lost);
  h_.Pass(absl::Seconds(4), {0});
  // Skew is taken at polls that every shard answered.
  h_.shard(0).version = 10;
  h_.shard(1).version = 7;
  h_.Poll();
  EXPECT_EQ(h_.Describe().shard_skew_now(), 3u);
  h_.shard(0).version = 11;
  h_.shard(1).version = 10;
  h_.Poll();
  const uint64_t round = h_.core().BeginPoll();  // One answer only: no sample.
  h_.shard(0).version = 90;
  h_.core().OnPoll(0, round, h_.Status(0), h_.now());
  const JobDescription description = h_.Describe();
  EXPECT_EQ(description.shard_skew_now(), 1u);
  EXPECT_EQ(description.shard_skew_max(), 3u);
  const std::map<uint64_t, uint64_t> staleness(description.staleness().begin(),
                                               description.staleness().end());
  EXPECT_EQ(staleness, (std::map<uint64_t, uint64_t>{{0, 1}, {1, 5}, {4, 2}}));
  const std::map<uint64_t, uint64_t> width(description.fetch_width().begin(),
                                           description.fetch_width().end());
  EXPECT_EQ(width, (std::map<uint64_t, uint64_t>{{0, 3}, {2, 1}}));
  EXPECT_EQ(description.counts().pushes(), 8u);
  EXPECT_EQ(description.worker(0).staleness_p50(), 1u);
  EXPECT_EQ(description.worker(1).state(), "LOST");
}

TEST_F(CoordinatorReplicasTest, AReplicaThatWaitsForAShardSaysWhy) {
  StartTraining(2);
  ReplicaStats stats;
  stats.set_waits_for("ps/0 at h:1: all 26 data streams are open");
  h_.Beat(0, &stats);
  h_.Beat(0, &stats);
  const auto waits = [&] { return std::string(h_.Describe().worker(0).waits_for()); };
  EXPECT_EQ(waits(), stats.waits_for());
  const auto told = [&] {
    int events = 0;
    const JobDescription description = h_.Describe();
    for (const JobDescription::Event& event : description.event()) {
      events += event.kind() == "worker_waits" && event.task() == "worker/0" &&
                event.text() == "ps/0 at h:1: all 26 data streams are open";
    }
    return events;
  };
  EXPECT_EQ(told(), 1);
  // Again and again is told once a minute.
  stats.clear_waits_for();
  h_.Beat(0, &stats);
  EXPECT_EQ(waits(), "");
  stats.set_waits_for("ps/0 at h:1: all 26 data streams are open");
  h_.Beat(0, &stats);
  EXPECT_EQ(waits(), stats.waits_for());
  EXPECT_EQ(told(), 1);
}

TEST_F(CoordinatorReplicasTest, ARejoinSaysThatTheInnerOptimizerBeginsAnew) {
  JobPlan plan = h_.Plan(/*epochs=*/5);
  plan.job.mutable_downpour()->mutable_local()->set_steps(10);
  plan.job.mutable_downpour()->mutable_local()->mutable_inner()->mutable_adam_w()->set_rate(0.001);
  h_.Submit(plan);
  h_.Poll();
  h_.Settle();
  h_.Join(0);
  h_.Join(1);
  h_.now_ += absl::Seconds(3.1);
  h_.Beat(0);
  h_.Poll();
  h_.core().Tick(h_.now());  // worker/1 is lost
  h_.Settle();
  EXPECT_TRUE(h_.Beat(1).rejoin());
  h_.Join(1);
  const JobDescription described = h_.Describe();
  std::vector<std::string> texts;
  for (const JobDescription::Event& event : described.event()) {
    if (event.kind() == "worker_joined" || event.kind() == "worker_rejoined") {
      texts.push_back(absl::StrCat(event.task(), ": ", event.text()));
    }
  }
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_THAT(texts[0], Not(HasSubstr("anew")));
  EXPECT_THAT(texts[2], AllOf(HasSubstr("worker/1: pid "),
                              HasSubstr("; the state of its inner optimizer begins anew")));
}

TEST_F(CoordinatorReplicasTest, SlowerWorkersAreToldFewerLocalSteps) {
  JobPlan plan = h_.Plan(/*epochs=*/5);
  plan.job.mutable_downpour()->mutable_local()->set_steps(100);
  plan.job.mutable_downpour()->mutable_local()->set_dynamic(true);
  h_.Submit(plan);
  h_.Poll();
  h_.Settle();
  for (const uint32_t worker : {0u, 1u, 2u}) {
    h_.Join(worker);
  }
  ReplicaStats stats;
  const auto told = [&](uint32_t worker, double step_ms) {
    stats.set_steps(stats.steps() + 1);
    stats.set_step_compute_ms(step_ms);
    return h_.Beat(worker, &stats).local_steps();
  };
  EXPECT_EQ(told(0, 0), 0u) << "it has computed no step";
  EXPECT_EQ(told(0, 10), 100u);
  EXPECT_EQ(told(1, 20), 50u);
  EXPECT_FALSE(h_.Describe().worker(2).has_local_steps());
  EXPECT_EQ(told(2, 40), 25u);
  EXPECT_EQ(told(2, 39), 25u);
  EXPECT_EQ(h_.Describe().worker(1).local_steps(), 50u);
  // Requests for work tell it, too.
  stats.set_step_compute_ms(32);
  ASSERT_OK(h_.Ask(1, stats));
  EXPECT_EQ(h_.Beat(1).local_steps(), 31u);
  // One that has left, or was lost, is no measure for the others.
  h_.Leave(0);
  h_.Settle();
  EXPECT_EQ(h_.Beat(1).local_steps(), 100u);
  EXPECT_EQ(h_.Beat(2).local_steps(), 82u);
  EXPECT_FALSE(h_.Describe().worker(0).has_local_steps());
  h_.Pass(absl::Seconds(4), {2});
  EXPECT_THAT(h_.Events(), Contains("worker_lost worker/1"));
  EXPECT_EQ(h_.Beat(2).local_steps(), 100u);
  // A coordinator that is started anew learns it again.
  h_.RestartCoordinator();
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.Beat(2).local_steps(), 0u);
  EXPECT_EQ(told(2, 40), 100u);
}

TEST_F(CoordinatorReplicasTest, LocalStepsThatAreNotDynamicAreNotTold) {
  JobPlan plan = h_.Plan(/*epochs=*/1);
  plan.job.mutable_downpour()->mutable_local()->set_steps(100);
  h_.Submit(plan);
  h_.Poll();
  h_.Settle();
  h_.Join(0);
  ReplicaStats stats;
  stats.set_steps(1);
  stats.set_step_compute_ms(10);
  EXPECT_EQ(h_.Beat(0, &stats).local_steps(), 0u);
  EXPECT_FALSE(h_.Describe().worker(0).has_local_steps());
}

TEST_F(CoordinatorReplicasTest, WarmstartStateAndEvents) {
  JobPlan plan = h_.Plan(3);
  plan.job.mutable_downpour()->mutable_warmstart()->set_steps(8);
  h_.Submit(plan);
  h_.Poll();
  h_.Settle();
  h_.Join(0);
  h_.Join(1);
  EXPECT_EQ(h_.State(), WARMSTART);
  EXPECT_TRUE(h_.Ask(1)->has_wait());
  EXPECT_TRUE(h_.Ask(0)->has_train());
  ReplicaStats stats;
  stats.set_steps(8);
  h_.Beat(0, &stats);
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_TRUE(h_.Ask(1)->has_train());
  EXPECT_THAT(h_.Events(), ElementsAre("submitted", "worker_joined worker/0", "warmstart",
                                       "worker_joined worker/1", "full"));
}

}  // namespace
}  // namespace monsoon
