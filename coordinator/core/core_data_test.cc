// Jobs whose data are in files, which workers look at: the coordinator opens none.
#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/core_harness.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreHarness;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CoordinatorDataTest : public ::testing::Test {
 protected:
  CoordinatorDataTest() {
    h_.KeepState();
    h_.Poll();
    h_.Settle();
  }

  // With data in files that nobody has looked at.
  static JobPlan Unseen(JobPlan plan) {
    plan.examples = 0;
    plan.awaits_data = true;
    plan.job.mutable_train()->mutable_npy()->set_images("/data/x.npy");
    return plan;
  }
  static DataReport Samples(uint64_t examples) {
    DataReport report;
    report.mutable_train()->set_examples(examples);
    return report;
  }
  static DataReport NoFile() {
    DataReport report;
    report.add_error()->set_field("train.npy.images");
    report.mutable_error(0)->set_message("/data/x.npy: no such file");
    return report;
  }
  // A heartbeat with the answer to `question`.
  HeartbeatReply Answer(uint32_t worker, const DataQuestion& question, DataReport report) {
    HeartbeatRequest request = h_.HeartbeatOf(worker);
    request.set_host(worker == 0 ? "alpha" : "beta");
    report.set_number(question.number());
    report.set_term(h_.term_[worker]);
    *request.mutable_data_report() = report;
    absl::StatusOr<HeartbeatReply> reply = h_.core().Heartbeat(request, h_.now());
    EXPECT_OK(reply);
    h_.incarnation_[worker] = reply->incarnation();
    h_.term_[worker] = reply->term();
    h_.Settle();
    return *reply;
  }
  // Joins, with the name of its machine.
  DataQuestion Join(uint32_t worker) {
    h_.incarnation_[worker] = 0;
    return Answer(worker, DataQuestion(), DataReport()).data_question();
  }

  CoreHarness h_{2, 2};
};

TEST_F(CoordinatorDataTest, AJobWaitsForAWorkerThatLooksAtItsData) {
  h_.Submit(Unseen(h_.Plan(1)));
  h_.Settle();
  EXPECT_EQ(h_.State(), PENDING);
  EXPECT_EQ(h_.Reason(), "waits for a worker to look at its data files: none is there");
  EXPECT_THAT(h_.shard(0).jobs, IsEmpty()) << "slices are made with what depends on the data";
  const DataQuestion question = Join(0);
  EXPECT_EQ(question.job().train().npy().images(), "/data/x.npy");
  EXPECT_EQ(h_.Reason(), "waits for worker/0 on alpha to look at its data files");
  EXPECT_FALSE(Answer(0, question, Samples(70)).has_data_question());
  EXPECT_THAT(h_.Events(), Contains("data_seen"));
  EXPECT_EQ(h_.Describe().data().examples(), 70u);
  h_.Join(0);
  h_.TrainToTheEnd(0);
  EXPECT_EQ(h_.done_.size(), 4u);
}

TEST_F(CoordinatorDataTest, AJobWhoseDataAreNotThereFailsByName) {
  h_.Submit(Unseen(h_.Plan(1)));
  Join(0);
  h_.RestartCoordinator();
  h_.Poll();
  const DataQuestion question = Join(0);
  Answer(0, question, NoFile());
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_EQ(h_.Reason(), "data: worker/0 on alpha: /data/x.npy: no such file (train.npy.images)");
  EXPECT_THAT(h_.shard(0).jobs, IsEmpty());
}

TEST_F(CoordinatorDataTest, AJobOfFewerSamplesThanABatchFails) {
  h_.Submit(Unseen(h_.Plan(1)));
  Answer(0, Join(0), Samples(3));
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("a batch of 5 is larger than the training data of 3"));
}

TEST_F(CoordinatorDataTest, AllWorkersThatMayTrainItAreAsked) {
  Join(0);
  Join(1);
  const uint64_t look = h_.core().data_looks().Ask(Unseen(h_.Plan(1)), h_.now().now);
  const DataQuestion first = h_.Beat(0).data_question();
  const DataQuestion second = h_.Beat(1).data_question();
  EXPECT_EQ(first.number(), look);
  EXPECT_EQ(second.number(), look);
  Answer(0, first, Samples(70));
  EXPECT_FALSE(h_.core().data_looks().Verdict(look, h_.now().now)) << "worker/1 may say otherwise";
  Answer(1, second, NoFile());
  const auto verdict = h_.core().data_looks().Verdict(look, h_.now().now);
  ASSERT_TRUE(verdict);
  ASSERT_EQ(verdict->errors.size(), 1u);
  EXPECT_EQ(verdict->errors[0].message(), "worker/1 on beta: /data/x.npy: no such file");
  h_.core().data_looks().End(look);
}

TEST_F(CoordinatorDataTest, OnlyWorkersThatMayTrainItAreAsked) {
  Join(0);
  Join(1);
  JobPlan alone = Unseen(h_.Plan(1));
  alone.job.mutable_downpour()->set_workers(1);
  alone.replicas = 1;
  const uint64_t look = h_.core().data_looks().Ask(alone, h_.now().now);
  EXPECT_TRUE(h_.Beat(0).has_data_question());
  EXPECT_FALSE(h_.Beat(1).has_data_question());
  h_.core().data_looks().End(look);
  EXPECT_FALSE(h_.Beat(0).has_data_question());
}

TEST_F(CoordinatorDataTest, NobodyWaitsForAWorkerThatIsGoneOrSlow) {
  h_.Submit(Unseen(h_.Plan(1)));
  const DataQuestion question = Join(0);
  h_.Pass(absl::Seconds(4));  // worker/0 is lost, and nobody else is there
  EXPECT_EQ(h_.Reason(), "waits for a worker to look at its data files: none is there");
  const DataQuestion again = Join(0);
  EXPECT_NE(again.number(), question.number());
  Answer(0, question, NoFile());  // of its earlier life
  EXPECT_EQ(h_.State(), PENDING);
  Answer(0, again, Samples(70));
  EXPECT_THAT(h_.Events(), Contains("data_seen"));
}

TEST_F(CoordinatorDataTest, AnAnswerToAnEarlierCoordinatorCountsForNothing) {
  h_.Submit(Unseen(h_.Plan(1)));
  const DataQuestion question = Join(0);
  const uint64_t term = h_.term_[0];
  h_.RestartCoordinator();
  h_.Poll();
  const DataQuestion again = Join(0);
  EXPECT_EQ(again.number(), question.number());
  HeartbeatRequest late = h_.HeartbeatOf(0);
  *late.mutable_data_report() = NoFile();
  late.mutable_data_report()->set_number(question.number());
  late.mutable_data_report()->set_term(term);
  ASSERT_OK(h_.core().Heartbeat(late, h_.now()));
  EXPECT_EQ(h_.State(), PENDING);
}

TEST_F(CoordinatorDataTest, AJobThatWasSeenIsNotLookedAtByTheNextCoordinator) {
  h_.Submit(Unseen(h_.Plan(1)));
  Answer(0, Join(0), Samples(70));
  h_.RestartCoordinator();
  h_.Poll();
  h_.Settle();
  h_.incarnation_[0] = 0;
  EXPECT_FALSE(h_.Beat(0).has_data_question());
  EXPECT_EQ(h_.Describe().data().examples(), 70u);
  h_.Settle();
  EXPECT_TRUE(h_.Beat(0).has_assignment());
}

TEST_F(CoordinatorDataTest, ACancelledJobIsNotLookedAt) {
  h_.Submit(Unseen(h_.Plan(1)));
  const DataQuestion question = Join(0);
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  EXPECT_FALSE(h_.Beat(0).has_data_question());
  Answer(0, question, Samples(70));
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_THAT(h_.Events(), Not(Contains("data_seen")));
}

TEST_F(CoordinatorDataTest, InitialParametersAreWrittenOnceTheDataWereSeen) {
  h_.Submit(Unseen(h_.Plan(1)), /*init=*/true);
  h_.Settle();
  EXPECT_EQ(h_.State(), PENDING);
  Answer(0, Join(0), Samples(70));
  EXPECT_EQ(h_.State(), INITIALIZING);
}

}  // namespace
}  // namespace monsoon
