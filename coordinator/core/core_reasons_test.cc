// Why a job waits, and that no wait is without end.
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
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class CoordinatorReasonsTest : public ::testing::Test {
 protected:
  JobPlan PlanWithTest() {
    JobPlan plan = h_.Plan(1);
    plan.job.mutable_test()->mutable_synthetic()->set_classes(10);
    return plan;
  }
  void StartTraining(const JobPlan& plan) {
    h_.Submit(plan);
    h_.Poll();
    h_.Settle();
    h_.Join(0);
    ASSERT_EQ(h_.State(), RUNNING);
  }
  // Trains until worker/0 is at the run over the test set that ends the job; its
  // number.
  uint64_t TrainToTheLastTest() {
    for (int i = 0; i < 200; ++i) {
      const absl::StatusOr<NextWorkReply> reply = h_.Ask(0);
      if (!reply.ok()) {
        ADD_FAILURE() << reply.status();
        return 0;
      }
      if (reply->has_evaluate()) {
        EXPECT_EQ(h_.State(), FINISHING);
        return reply->evaluate().evaluation();
      }
    }
    ADD_FAILURE() << "no test";
    return 0;
  }

  CoreHarness h_{2, 6};
};

TEST_F(CoordinatorReasonsTest, NothingIsSaidWhileNothingIsMissing) {
  StartTraining(PlanWithTest());
  EXPECT_THAT(h_.Reason(), IsEmpty());
  TrainToTheLastTest();
  EXPECT_THAT(h_.Reason(), IsEmpty());
}

// Reasons and events go to terminals, and a worker says what it likes.
TEST_F(CoordinatorReasonsTest, WhatAWorkerSaysOfItsFailureIsFitForATerminal) {
  StartTraining(PlanWithTest());
  ASSERT_OK(h_.Fail(0, ReportFailureRequest::DIVERGED,
                    "loss is nan\x1b]0;title\x07\n" + std::string(10'000, 'x')));
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("loss is nan\\x1b]0;title\\x07\\nxxx"),
                                 Not(HasSubstr("\n")), Not(HasSubstr("\x1b"))));
  EXPECT_LT(h_.Reason().size(), 5000u);
}

// Nothing waits for it yet: who is connected is served.
TEST_F(CoordinatorReasonsTest, TasksThatOthersMayNotReachAreTold) {
  StartTraining(h_.Plan(2));
  const auto told = [&] {
    const JobDescription description = h_.Describe();
    std::vector<std::string> lines;
    for (const JobDescription::Trouble& trouble : description.trouble()) {
      lines.push_back(absl::StrCat(trouble.task(), " ", trouble.text()));
    }
    return lines;
  };
  EXPECT_THAT(told(), IsEmpty());
  h_.shard(1).trouble = "takes no new connections";
  h_.Poll();
  HeartbeatRequest request = h_.HeartbeatOf(0);
  request.set_trouble("cannot reach its own address b:2");
  ASSERT_OK(h_.core().Heartbeat(request, h_.now()).status());
  EXPECT_THAT(told(), ElementsAre("ps/1 takes no new connections",
                                  "worker/0 cannot reach its own address b:2"));
  const InfoReply info = h_.core().Info(h_.now());
  EXPECT_EQ(info.task(0).trouble(), "");
  EXPECT_EQ(info.task(1).trouble(), "takes no new connections");
  EXPECT_EQ(info.task(2).trouble(), "cannot reach its own address b:2");

  h_.shard(1).alive = false;
  h_.Pass(absl::Seconds(35), {0});
  EXPECT_THAT(told(), IsEmpty());
  EXPECT_EQ(h_.core().Info(h_.now()).task(1).trouble(), "") << "of one that is gone nobody knows";
}

TEST_F(CoordinatorReasonsTest, WhatAllReplicasWaitForIsTheJobsReason) {
  StartTraining(h_.Plan(2));
  h_.Join(1);
  ReplicaStats waits;
  waits.set_steps(3);
  waits.set_examples(30);
  waits.set_waits_for("ps/0 at h:1: all 26 data streams are open");
  ReplicaStats other = waits;
  other.clear_waits_for();
  const auto beat = [&](double seconds) {
    for (double passed = 0; passed < seconds; passed += 0.5) {
      h_.Beat(0, &waits);
      h_.Beat(1, &other);
      h_.Pass(absl::Seconds(0.5));
    }
  };
  beat(8);
  EXPECT_EQ(h_.Reason(), "") << "one of them goes on";
  other.set_waits_for("ps/1 at h:2: no answer");
  beat(1);
  EXPECT_EQ(h_.Reason(),
            "its workers wait: worker/0: ps/0 at h:1: all 26 data streams are open, worker/1: ps/1 "
            "at h:2: no answer");
  // Nobody knows how long for.
  EXPECT_FALSE(h_.Describe().progress().has_eta_s());
}

TEST_F(CoordinatorReasonsTest, NamesTheFirstOfManyWorkersByAddress) {
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  EXPECT_THAT(h_.Reason(),
              AllOf(StartsWith("waits for a worker: worker/0 at unix:w0 "
                               "(not seen), worker/1 at unix:w1"),
                    HasSubstr("worker/3"), Not(HasSubstr("worker/4")), HasSubstr("and 2 more")));
}

TEST_F(CoordinatorReasonsTest, AJobInTheQueueSaysWhoIsAheadAndWhyThatWaits) {
  h_.Submit(h_.Plan(1));
  h_.Submit(h_.Plan(1));
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  EXPECT_THAT(h_.Reason("j-2"),
              AllOf(StartsWith("waits for job j-1 to end (PENDING, 0 %; it waits for a worker: "),
                    HasSubstr("; it is number 2 in the queue")));
  EXPECT_THAT(h_.Reason("j-3"), AllOf(HasSubstr("waits for job j-1 to end"),
                                      HasSubstr(", then for j-2; it is number 3 in the queue")));
  h_.Join(0);
  EXPECT_EQ(h_.Reason("j-2"),
            "waits for job j-1 to end (RUNNING, 0 %); it is number 2 in the queue");
}

// Seen by users: such a job held the queue without a word.
TEST_F(CoordinatorReasonsTest, FinishingWithoutAWorkerSaysSoAndEnds) {
  StartTraining(PlanWithTest());
  TrainToTheLastTest();
  h_.Submit(h_.Plan(1));
  h_.Pass(absl::Seconds(10));  // worker/0 is silent
  EXPECT_EQ(h_.State("j-1"), FINISHING);
  EXPECT_THAT(h_.Reason("j-1"),
              AllOf(StartsWith("waits for a worker: worker/0 at unix:w0 (lost for 10 s), "
                               "worker/1 at unix:w1 (not seen)"),
                    HasSubstr("to test the final parameters; fails in 5")));
  EXPECT_THAT(h_.Reason("j-2"), HasSubstr("j-1 to end (FINISHING, 100 %; it waits for a worker"));
  h_.Pass(absl::Seconds(60));
  EXPECT_EQ(h_.State("j-1"), FAILED);
  EXPECT_THAT(h_.Reason("j-1"),
              AllOf(HasSubstr("no worker for 60 s (worker_wait_ms: 60000); waited for a worker: "
                              "worker/0 at unix:w0"),
                    HasSubstr("the final evaluation is missing: `coordinator export j-1`")));
  h_.Settle();
  EXPECT_THAT(h_.Reason("j-2"), StartsWith("waits for a worker: "));  // its turn
}

TEST(CoordinatorWorkerWaitTest, TheClusterFileSaysHowLongItIs) {
  CoreHarness h(1, 1, /*worker_wait_ms=*/5000);
  h.Submit(h.Plan(1));
  h.Poll();
  h.Settle();
  h.Join(0);
  h.Pass(absl::Seconds(7));
  EXPECT_EQ(h.State(), RUNNING);  // lost after 3 s
  h.Pass(absl::Seconds(2));
  EXPECT_EQ(h.State(), FAILED);
  EXPECT_THAT(h.Reason(), HasSubstr("no worker for 5 s (worker_wait_ms: 5000)"));
}

// One that joins, and is lost before it has done anything, again and again.
TEST_F(CoordinatorReasonsTest, AWorkerThatNeverStaysDoesNotHoldTheQueueForEver) {
  StartTraining(PlanWithTest());
  for (int i = 0; i < 20 && h_.State() == RUNNING; ++i) {
    h_.Pass(absl::Seconds(4));  // silent
    h_.Beat(0);
    h_.Settle();
    h_.Beat(0);
    h_.Settle();
  }
  h_.Pass(absl::Seconds(4));
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("no worker for 6"));
}

TEST_F(CoordinatorReasonsTest, WorkersThatAreLostOverTheLastTestEndTheJob) {
  StartTraining(PlanWithTest());
  TrainToTheLastTest();
  for (int i = 1; i < kMaxLostFinalTests; ++i) {
    h_.Pass(absl::Seconds(4));
    ASSERT_EQ(h_.State(), FINISHING) << i;
    h_.Beat(0);
    h_.Join(0);
    ASSERT_OK_AND_ASSIGN(const NextWorkReply reply, h_.Ask(0));
    ASSERT_TRUE(reply.has_evaluate());
  }
  h_.Pass(absl::Seconds(4));
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("5 workers were lost while they tested the final parameters"));
}

TEST_F(CoordinatorReasonsTest, AWorkerThatSaidGoodbyeIsLeft) {
  StartTraining(PlanWithTest());
  h_.Join(1);
  h_.Leave(1);
  const JobDescription job = h_.Describe();
  ASSERT_EQ(job.worker_size(), 2);
  EXPECT_EQ(job.worker(1).state(), "LEFT");
  EXPECT_EQ(h_.core().Info(h_.now()).task(3).state(), "LEFT");
}

TEST_F(CoordinatorReasonsTest, ParametersOnALostShardAreNotLocated) {
  StartTraining(PlanWithTest());
  ASSERT_OK(h_.core().Locate("j-1", h_.now()));
  h_.shard(1).alive = false;
  h_.Pass(absl::Seconds(4), {0});
  EXPECT_THAT(h_.core().Locate("j-1", h_.now()).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("ps/1 at unix:ps1 (lost for 4 s"), Not(HasSubstr("ps/0")))));
}

TEST_F(CoordinatorReasonsTest, AJobThatEndsAtChanceSaysSo) {
  JobPlan plan = PlanWithTest();
  plan.job.mutable_model()->add_input_shape(4);
  plan.job.mutable_model()->add_layer()->mutable_dense()->set_units(10);
  StartTraining(plan);
  // 0.1 + 2 * 0.03: 16 of 100 right are no better than a guess.
  ASSERT_OK(h_.ReportEvaluation(0, TrainToTheLastTest(), 16));
  ASSERT_OK(h_.Ask(0));
  h_.Pass(absl::Seconds(1), {0});
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_THAT(h_.Events(), Contains("at_chance"));
  EXPECT_THAT(h_.Reason(), HasSubstr("has learned nothing: test accuracy 0.1600 on 100 samples is "
                                     "what guessing one of 10 classes gives (0.1000)"));
}

TEST_F(CoordinatorReasonsTest, AJobThatLearnedSaysNothing) {
  JobPlan plan = PlanWithTest();
  plan.job.mutable_model()->add_input_shape(4);
  plan.job.mutable_model()->add_layer()->mutable_dense()->set_units(10);
  StartTraining(plan);
  ASSERT_OK(h_.ReportEvaluation(0, TrainToTheLastTest(), 17));
  ASSERT_OK(h_.Ask(0));
  h_.Pass(absl::Seconds(1), {0});
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_THAT(h_.Reason(), IsEmpty());
}

}  // namespace
}  // namespace monsoon
