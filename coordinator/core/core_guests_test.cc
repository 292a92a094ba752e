// Workers that the cluster file does not list, in an open cluster.
#include "coordinator/core/core_harness.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreHarness;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// One listed worker, worker/0, and a job that takes all that come.
class CoreGuestsTest : public ::testing::Test {
 protected:
  CoreGuestsTest() {
    h_.guest_ = {{1, 7001}, {2, 7002}};
    h_.RestartWith(/*open=*/true);
  }
  void Start(uint32_t workers = 0) {
    JobPlan plan = h_.Plan(50);
    plan.job.mutable_downpour()->set_workers(workers);
    h_.Submit(plan);
    h_.Poll();
    h_.Settle();
  }
  bool Open(uint32_t worker) {
    return h_.shard(0).open.contains(absl::StrCat("j-1/", worker, "#", h_.incarnation_[worker]));
  }
  CoreHarness h_{2, 1};
};

TEST_F(CoreGuestsTest, TrainBesideListedWorkersFromWhenTheyJoin) {
  Start();
  h_.Join(0);
  ASSERT_OK(h_.Ask(0));
  h_.Join(1);
  ASSERT_OK_AND_ASSIGN(const NextWorkReply work, h_.Ask(1));
  EXPECT_TRUE(work.has_train());
  h_.Join(2);
  ASSERT_OK(h_.Ask(2));
  EXPECT_EQ(h_.Describe().worker_size(), 3);
  EXPECT_THAT(h_.Events(),
              AllOf(Contains("worker_joined worker/1"), Contains("worker_joined worker/2")));
}

TEST_F(CoreGuestsTest, AJobWaitsForThemWhereNoWorkerIsListed) {
  CoreHarness h(1, 0);
  h.guest_ = {{0, 7000}};
  h.RestartWith(/*open=*/true);
  h.Submit(h.Plan(2, 1, 1));
  h.Poll();
  h.Settle();
  EXPECT_THAT(h.Reason(), HasSubstr("the cluster is open, and none has joined"));
  h.Join(0);
  EXPECT_EQ(h.State(), RUNNING);
}

TEST_F(CoreGuestsTest, AreShownByTheirMachine) {
  h_.Beat(1);
  const InfoReply info = h_.core().Info(h_.now());
  EXPECT_EQ(info.task(3).task(), "worker/1");
  EXPECT_EQ(info.task(3).address(), "a guest on attic");
  EXPECT_EQ(info.task(3).state(), "UP");
}

TEST_F(CoreGuestsTest, OneThatDiesLosesItsBlocksLikeAnyWorker) {
  Start();
  h_.Join(0);
  h_.Join(1);
  ASSERT_OK(h_.Ask(1));
  h_.Pass(absl::Seconds(4), {0});
  EXPECT_THAT(h_.Events(),
              AllOf(Contains("worker_lost worker/1"), Contains("blocks_released worker/1")));
  EXPECT_FALSE(Open(1));
}

// Another process gets the number, and nothing of what the first one had.
TEST_F(CoreGuestsTest, ANumberThatIsFreeIsGivenToTheNext) {
  Start();
  h_.Join(0);
  h_.Join(1);
  ASSERT_OK(h_.Ask(1));
  h_.Leave(1);
  h_.Settle();
  h_.guest_[1] = 8001;
  h_.Join(1);
  EXPECT_EQ(h_.session_[1].incarnation(), 2u);
  EXPECT_TRUE(Open(1));
  // The first one was told nothing, and wakes.
  h_.guest_[2] = 7001;
  h_.incarnation_[2] = 1;
  h_.term_[2] = h_.term_[1];
  EXPECT_TRUE(h_.Beat(2).rejoin());
  h_.Join(2);
  EXPECT_TRUE(Open(1));
}

TEST_F(CoreGuestsTest, AJobThatNamesHowManyTakesNoMore) {
  Start(/*workers=*/1);
  h_.Join(0);
  h_.Beat(1);
  h_.Settle();
  EXPECT_FALSE(h_.Beat(1).has_assignment());
}

TEST_F(CoreGuestsTest, ANewGuestDoesNotSufferForOneThatWasLeftOut) {
  Start();
  h_.Join(0);
  h_.Join(1);
  ASSERT_OK(h_.Fail(1, ReportFailureRequest::OTHER_DATA, "no such file"));
  h_.Settle();
  h_.Leave(1);
  h_.Settle();
  h_.Join(2);  // and not as worker/1
  EXPECT_TRUE(Open(2));
}

TEST_F(CoreGuestsTest, WhereAllWereLeftOutTheJobWaitsForOthers) {
  CoreHarness h(1, 0);
  h.guest_ = {{0, 7000}, {1, 7001}};
  h.RestartWith(/*open=*/true);
  h.Submit(h.Plan(2, 1, 1));
  h.Poll();
  h.Settle();
  h.Join(0);
  ASSERT_OK(h.Ask(0));
  ASSERT_OK(h.Fail(0, ReportFailureRequest::OTHER_DATA, "no such file"));
  h.Pass(absl::Seconds(5), {0});
  EXPECT_NE(h.State(), FAILED) << h.Reason();
  h.Join(1);
  EXPECT_TRUE(h.shard(0).open.contains("j-1/1#1"));
}

TEST_F(CoreGuestsTest, GoOnWhenTheCoordinatorWasStartedAnew) {
  h_.KeepState();
  Start();
  h_.Join(0);
  h_.Join(1);
  ASSERT_OK(h_.Ask(1));
  const SessionKey session = h_.session_[1];
  h_.RestartCoordinator();
  h_.Poll();
  h_.Settle();
  const HeartbeatReply reply = h_.Beat(1);
  EXPECT_FALSE(reply.rejoin());
  EXPECT_EQ(reply.assignment().session().SerializeAsString(), session.SerializeAsString());
  ASSERT_OK(h_.Ask(1));
}

TEST_F(CoreGuestsTest, AreLostWhereTheNextLifeIsNotOpen) {
  h_.KeepState();
  Start();
  h_.Join(0);
  h_.Join(1);
  ASSERT_OK(h_.Ask(1));
  h_.RestartWith(/*open=*/false);
  h_.Poll();
  h_.Settle();
  h_.Pass(absl::Seconds(1), {0});
  EXPECT_THAT(h_.Events(), Contains("worker_lost worker/1"));
  EXPECT_FALSE(Open(1));
  EXPECT_TRUE(Open(0));
}

TEST_F(CoreGuestsTest, DrainTellsAGuestToLeave) {
  h_.Beat(1);
  ASSERT_OK(h_.core().Drain(1));
  EXPECT_TRUE(h_.Beat(1).drain());
  EXPECT_THAT(h_.core().Drain(2), StatusIs(absl::StatusCode::kNotFound, HasSubstr("worker/2")));
}

}  // namespace
}  // namespace monsoon
