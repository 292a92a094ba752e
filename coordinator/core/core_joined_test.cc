// Joined jobs beside each other and beside the queue: whose replicas are whose.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/core_enter_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreEnterTest;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CoreEnterTest, JoinedJobsRunBesideTheQueue) {
  h_.Submit(h_.Plan(1));
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  Begin(1, "gpt");
  Begin(2, "bert");
  h_.Join(0);
  EXPECT_EQ(h_.session_[0].job(), "j-1");
  Join(1, "gpt-3");
  Join(2, "bert-4");
  EXPECT_EQ(h_.State("j-1"), RUNNING);
  EXPECT_EQ(h_.State("j-2"), PENDING);
  EXPECT_EQ(h_.State("gpt-3"), RUNNING);
  EXPECT_EQ(h_.State("bert-4"), RUNNING);
  EXPECT_THAT(h_.Reason("j-2"),
              AllOf(HasSubstr("waits for job j-1 to end"), HasSubstr("number 2 in the queue")));
  // Each trains its own data.
  for (const uint32_t worker : {0, 1, 2}) {
    ASSERT_OK_AND_ASSIGN(const NextWorkReply work, h_.Ask(worker));
    EXPECT_EQ(work.train().block(0).block(), 0u) << worker;
  }
  // One that ends takes nothing from the others.
  h_.TrainToTheEnd(1);
  h_.Pass(absl::Seconds(1), {0, 1, 2});
  EXPECT_EQ(h_.State("gpt-3"), SUCCEEDED);
  EXPECT_EQ(h_.State("bert-4"), RUNNING);
  EXPECT_EQ(h_.State("j-2"), PENDING);
  EXPECT_FALSE(h_.Beat(1).has_assignment()) << "a program gets no session of another job";
  h_.TrainToTheEnd(0);
  h_.Pass(absl::Seconds(1), {0, 1, 2});
  EXPECT_EQ(h_.State("j-1"), SUCCEEDED);
  EXPECT_EQ(h_.Beat(0).assignment().session().job(), "j-2");
  EXPECT_EQ(h_.Beat(2).assignment().session().job(), "bert-4");
  ASSERT_OK(h_.core().Cancel("bert-4", h_.now()));
  h_.Pass(absl::Seconds(1), {0, 1, 2});
  EXPECT_EQ(h_.State("bert-4"), CANCELLED);
  EXPECT_EQ(h_.State("j-2"), RUNNING);
  EXPECT_EQ(h_.Beat(2).job_ended(), CANCELLED);
  EXPECT_EQ(h_.Beat(2).job_reason(), "cancelled by a user");
}

TEST_F(CoreEnterTest, ProgramsEnterAClosedClusterAndOtherGuestsDoNot) {
  Begin(1);
  h_.guest_[1] = 7001;
  EXPECT_THAT(h_.core().Heartbeat(h_.HeartbeatOf(1), h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("open: true")));
  Join(1, "gpt-1");
  EXPECT_EQ(h_.core().Info(h_.now()).task(3).address(), "a program on attic, in gpt-1");
  const JobDescription described = h_.Describe("gpt-1");
  ASSERT_EQ(described.worker_size(), 1);
  EXPECT_EQ(described.worker(0).host(), "attic");
  EXPECT_EQ(described.worker(0).pid(), 201u);
  // A listed worker is no program.
  h_.enters_[0] = "gpt-1";
  EXPECT_THAT(h_.core().Heartbeat(h_.HeartbeatOf(0), h_.now()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot enter a job")));
}

TEST_F(CoreEnterTest, GuestsOfAnOpenClusterTrainTheQueueAlone) {
  h_.RestartWith(/*open=*/true);
  Begin(1);
  h_.Submit(h_.Plan(50));
  h_.Settle();
  h_.guest_[1] = 1;
  h_.Join(1);
  EXPECT_EQ(h_.session_[1].job(), "j-2");
  Join(2, "gpt-1");
  EXPECT_EQ(h_.Beat(1).assignment().session().job(), "j-2");
}

// The queue's job has its number of workers, whatever numbers programs have.
TEST_F(CoreEnterTest, ProgramsTakeNoWorkersPlace) {
  h_.RestartWith(/*open=*/true);
  Begin(1);
  Join(1, "gpt-1");
  JobPlan plan = h_.Plan(50);
  plan.job.mutable_downpour()->set_workers(2);
  plan.replicas = 2;
  h_.Submit(plan);
  h_.Settle();
  h_.Join(0);
  h_.guest_[2] = 2;
  h_.Join(2);
  EXPECT_EQ(h_.session_[2].job(), "j-2");
}

TEST_F(CoreEnterTest, WaitsForAProgramAsLongAsItTakes) {
  Begin(1);
  Join(1, "gpt-1");
  ASSERT_OK(h_.Ask(1));
  h_.Pass(absl::Minutes(10));
  EXPECT_EQ(h_.State(), PENDING);
  EXPECT_EQ(h_.Reason(), "waits for a program to join: `ms.join(..., job=\"gpt\")`");
  EXPECT_THAT(h_.Events(), AllOf(Contains("worker_lost worker/1"), Contains("no_worker")));
  h_.incarnation_[1] = 0;
  Join(1, "gpt-1");
  EXPECT_EQ(h_.State(), RUNNING);
  h_.TrainToTheEnd(1);
  h_.Pass(absl::Seconds(1), {1});
  EXPECT_EQ(h_.State(), SUCCEEDED);
}

// Differences of more programs than the job was told add up, where nobody chose an optimizer.
TEST_F(CoreEnterTest, ProgramsWhoseDifferencesAddUpAreToldSo) {
  for (const uint32_t programs : {1u, 2u}) {
    SCOPED_TRACE(programs);
    const uint32_t first = 2 * programs - 1;  // the others are of the other job
    JobPlan plan = Joined(absl::StrCat("sum", programs));
    plan.job.mutable_downpour()->clear_optimizer();
    plan.job.mutable_downpour()->mutable_local()->set_steps(1);
    plan.job.mutable_downpour()->set_programs(programs);
    plan.sharers = programs;
    h_.Poll();
    std::string job;
    uint64_t sealed_by = 0;
    for (int call = 0; call < 4; ++call) {
      EnterRequest request = RequestOf(first, plan);
      request.set_sealed_by(sealed_by);
      ASSERT_OK_AND_ASSIGN(const EnterReply reply, h_.core().Enter(request, plan, h_.now()));
      h_.job_term_ = reply.job_term();
      h_.Settle();
      job = reply.job();
      sealed_by = h_.core().state().FindJob(job)->writer().number();
    }
    Join(first, job);
    Join(first + 1, job);
    EXPECT_THAT(h_.Describe(job).outer_optimizer(),
                HasSubstr(programs == 1 ? "subtracted whole" : "the mean of 2 replicas"));
    const auto added = Contains(absl::StrCat("differences_add_up worker/", first + 1));
    if (programs == 1) {
      EXPECT_THAT(h_.Events(), added);
    } else {
      EXPECT_THAT(h_.Events(), Not(added));
    }
  }
}

TEST_F(CoreEnterTest, ANumberIsFreeOnceItsProgramLeft) {
  Begin(1);
  Join(1, "gpt-1");
  Begin(2, "bert");
  ASSERT_OK(h_.core().Cancel("gpt-1", h_.now()));
  h_.Settle();
  // It stays a member until it says goodbye.
  EXPECT_EQ(h_.Beat(1).job_ended(), CANCELLED);
  h_.Leave(1);
  h_.guest_[1] = 7002;
  h_.enters_[1] = "bert-2";
  h_.Join(1);
  EXPECT_EQ(h_.session_[1].job(), "bert-2");
  EXPECT_EQ(h_.session_[1].incarnation(), 2u);
  // Who had that number in the first job is gone.
  const JobDescription first = h_.Describe("gpt-1");
  for (const JobDescription::Worker& worker : first.worker()) {
    EXPECT_EQ(worker.pid(), 0u);
  }
}

TEST_F(CoreEnterTest, ANumberWhoseSessionIsStillClosingIsNoOthers) {
  Begin(1);
  Begin(3, "bert");
  Join(1, "gpt-1");
  h_.shard(1).silent = true;
  h_.Leave(1);
  h_.Settle();
  h_.guest_[2] = 7003;
  h_.enters_[2] = "bert-2";
  EXPECT_EQ(h_.Beat(2).task(), 2u);
}

TEST_F(CoreEnterTest, AProgramThatGoesOnToAnotherJobJoinsAgain) {
  Begin(1);
  Join(1, "gpt-1");
  Begin(1, "bert");
  h_.enters_[1] = "bert-2";
  EXPECT_TRUE(h_.Beat(1).rejoin());
  h_.Join(1);
  EXPECT_EQ(h_.session_[1].job(), "bert-2");
  EXPECT_EQ(h_.State("gpt-1"), PENDING);
}

TEST_F(CoreEnterTest, AGuestOfAJobThatIsGoneIsTold) {
  BecomesGuest(1, "gpt-9");
  const HeartbeatReply reply = h_.Beat(1);
  EXPECT_EQ(reply.job_ended(), FAILED);
  EXPECT_THAT(reply.job_reason(), HasSubstr("job gpt-9 is gone"));
  EXPECT_EQ(h_.core().Info(h_.now()).task_size(), 3);
  // Neither is a job of layers entered by a heartbeat alone, nor by its other name.
  h_.Submit(h_.Plan(1));
  for (const char* job : {"j-1", "latest"}) {
    BecomesGuest(1, job);
    EXPECT_EQ(h_.Beat(1).job_ended(), FAILED) << job;
  }
}

TEST_F(CoreEnterTest, TheNextCoordinatorGoesOnWithAllOfThem) {
  h_.KeepState();
  h_.Submit(h_.Plan(5));
  Begin(1, "gpt");
  Begin(2, "bert");
  h_.Join(0);
  Join(1, "gpt-2");
  Join(2, "bert-3");
  for (const uint32_t worker : {0, 1, 2}) {
    ASSERT_OK(h_.Ask(worker));
  }
  h_.RestartCoordinator();
  h_.Poll();
  h_.Settle();
  for (const char* job : {"j-1", "gpt-2", "bert-3"}) {
    EXPECT_EQ(h_.State(job), RUNNING) << job;
  }
  // They have not even to join again.
  for (const uint32_t worker : {0, 1, 2}) {
    EXPECT_FALSE(h_.Beat(worker).rejoin());
    ASSERT_OK(h_.Ask(worker));
  }
  h_.TrainToTheEnd(1);
  h_.Pass(absl::Seconds(1), {0, 1, 2});
  EXPECT_EQ(h_.State("gpt-2"), SUCCEEDED);
  // One that is silent in the new life is lost.
  h_.RestartCoordinator();
  h_.Poll();
  h_.Pass(absl::Seconds(4), {0});
  EXPECT_EQ(h_.State("bert-3"), PENDING);
  EXPECT_EQ(h_.State("j-1"), RUNNING);
}

TEST_F(CoreEnterTest, EachOfThemGetsItsSliceBack) {
  h_.KeepState();
  h_.Submit(h_.Plan(5));
  Begin(1);
  h_.Join(0);
  Join(1, "gpt-2");
  ASSERT_OK(h_.Ask(0));
  ASSERT_OK(h_.Ask(1));
  h_.Pass(absl::Seconds(1), {0, 1});
  h_.Restart(1);
  h_.Pass(absl::Seconds(1), {0, 1});
  EXPECT_THAT(h_.Events("j-1"), Contains("shard_restored ps/1"));
  EXPECT_THAT(h_.Events("gpt-2"), Contains("shard_restored ps/1"));
  EXPECT_EQ(h_.Beat(1).assignment().shard_epoch(1), h_.shard(1).epoch);
  EXPECT_TRUE(h_.shard(1).open.contains("gpt-2/1#1"));
  EXPECT_TRUE(h_.shard(1).open.contains("j-1/0#1"));
}

TEST_F(CoreEnterTest, ACheckpointAndAnExportAreOfTheJobThatIsNamed) {
  h_.KeepState();
  h_.Submit(h_.Plan(5));
  Begin(1);
  h_.Join(0);
  Join(1, "gpt-2");
  ASSERT_OK_AND_ASSIGN(const CheckpointOrder order, h_.core().Checkpoint("gpt-2", h_.now()));
  h_.Pass(absl::Seconds(1), {0, 1});
  EXPECT_GE(h_.Describe("gpt-2").durability().generation(), order.generation());
  ASSERT_OK_AND_ASSIGN(const JobLocation location, h_.core().Locate("gpt-2", h_.now()));
  EXPECT_EQ(location.model().tensor_size(), 1);
}

// ---- evaluations by the program ----------------------------------------------

class CoreMetricsTest : public CoreEnterTest {
 protected:
  // A job that is tested after each epoch, at its first test.
  void ReachATest(void (*change)(Job*) = nullptr) {
    h_.KeepState();
    JobPlan plan = Joined("gpt", 3);
    plan.job.mutable_test()->mutable_joiners();
    plan.job.mutable_evaluation()->set_every_epochs(1);
    if (change != nullptr) {
      change(&plan.job);
    }
    h_.Poll();
    EnterUntilItTrains(1, plan);
    Join(1, "gpt-1");
    Await();
  }
  // Trains until a test is given out.
  void Await() {
    for (int i = 0; i < 50; ++i) {
      ASSERT_OK_AND_ASSIGN(const NextWorkReply work, h_.Ask(1));
      if (work.has_evaluate()) {
        evaluation_ = work.evaluate().evaluation();
        return;
      }
      h_.Pass(absl::Milliseconds(500), {1});
    }
    FAIL() << "no test";
  }
  absl::Status Report(const std::vector<std::pair<std::string, double>>& metrics) {
    ReportEvaluationRequest request;
    *request.mutable_session() = h_.session_[1];
    request.set_evaluation(evaluation_);
    for (const auto& [name, value] : metrics) {
      Metric* const metric = request.add_metric();
      metric->set_name(name);
      metric->set_value(value);
    }
    return h_.core().ReportEvaluation(request, h_.now());
  }
  uint64_t evaluation_ = 0;
};

TEST_F(CoreMetricsTest, AreKeptInTheirOrder) {
  ReachATest();
  ASSERT_OK(Report({{"perplexity", 12.5}, {"loss", 2.5}}));
  const JobDescription description = h_.Describe();
  ASSERT_EQ(description.evaluation_size(), 1);
  const JobDescription::EvaluationResult& result = description.evaluation(0);
  ASSERT_EQ(result.metric_size(), 2);
  EXPECT_EQ(result.metric(0).name(), "perplexity");
  EXPECT_EQ(result.metric(0).value(), 12.5);
  EXPECT_EQ(result.test_loss(), 2.5);
  EXPECT_FALSE(result.has_test_accuracy());
  EXPECT_EQ(description.event(description.event_size() - 1).text(),
            "epoch 1.00: perplexity 12.5, loss 2.5");
  h_.RestartCoordinator();
  EXPECT_EQ(h_.Describe().evaluation(0).metric_size(), 2);
}

TEST_F(CoreMetricsTest, ALossThatIsNotFiniteEndsTheJob) {
  ReachATest();
  ASSERT_OK(Report({{"loss", std::nan("")}}));
  h_.Pass(absl::Seconds(6), {1});
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("diverged: worker/1 finds a non-finite loss"));
}

TEST_F(CoreMetricsTest, AnAccuracyReachesTheTarget) {
  ReachATest([](Job* job) { job->mutable_stop()->set_target_accuracy(0.9); });
  ASSERT_OK(Report({{"accuracy", 0.95}}));
  h_.TrainToTheEnd(1);
  EXPECT_LT(h_.Describe().progress().epoch(), 3);
}

TEST_F(CoreMetricsTest, ATargetNeedsAnAccuracy) {
  ReachATest([](Job* job) { job->mutable_stop()->set_target_accuracy(0.9); });
  ASSERT_OK(Report({{"loss", 1}, {"bleu", 2}}));
  h_.Pass(absl::Seconds(6), {1});
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("worker/1: stop.target_accuracy needs \"accuracy\", and the "
                                     "program's evaluation gives only \"loss\", \"bleu\""));
}

TEST_F(CoreMetricsTest, TheBestIsByTheFigureThatIsAskedFor) {
  ReachATest([](Job* job) { job->mutable_checkpoint()->set_keep_best(TEST_LOSS); });
  ASSERT_OK(Report({{"loss", 0.5}}));
  EXPECT_EQ(h_.Describe().durability().best().loss(), 0.5);
  EXPECT_FALSE(h_.Describe().durability().best().has_accuracy());
  Await();
  ASSERT_OK(Report({{"accuracy", 0.5}}));
  h_.Settle();
  EXPECT_THAT(h_.Reason(), HasSubstr("checkpoint.keep_best needs \"loss\""));
}

TEST_F(CoreMetricsTest, APlateauNeedsItsFigure) {
  ReachATest([](Job* job) {
    job->mutable_downpour()->mutable_optimizer()->mutable_schedule()->mutable_plateau();
  });
  ASSERT_OK(Report({{"bleu", 2}}));
  h_.Settle();
  EXPECT_THAT(h_.Reason(), HasSubstr("downpour.optimizer.schedule.plateau needs \"loss\""));
}

TEST_F(CoreMetricsTest, AnEvaluationWithoutFiguresEndsTheJobByName) {
  ReachATest();
  ASSERT_OK(Report({}));
  h_.Settle();
  EXPECT_THAT(h_.Reason(), HasSubstr("the program's evaluation gives no figure"));
}

TEST_F(CoreMetricsTest, NamesAreRefusedThatNobodyCanShow) {
  ReachATest();
  EXPECT_THAT(Report({{"a\nb", 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("printable characters")));
  EXPECT_THAT(Report({{"a", 1}, {"a", 2}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has \"a\" twice")));
}

}  // namespace
}  // namespace monsoon
