// Settings that change while a job trains (Set): what is durable, and who is told.
#include <algorithm>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "coordinator/core/core_checkpoints_fixture.h"
#include "coordinator/core/core_enter_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StatusIs;

constexpr char kRate[] = "downpour.optimizer.sgd.rate=0.25";

absl::Status Valid(const Job&, const Cluster&) { return absl::OkStatus(); }

SetRequest SetOf(const std::string& job, const std::vector<std::string>& settings) {
  SetRequest request;
  request.set_job(job);
  request.mutable_setting()->Assign(settings.begin(), settings.end());
  return request;
}

class CoreSettingsTest : public testing::CoreCheckpointsTest {
 protected:
  JobPlan Plan() {
    JobPlan plan = h_.Plan(100);
    Downpour& downpour = *plan.job.mutable_downpour();
    downpour.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
    downpour.set_staleness_bound(4);
    downpour.set_workers(1);
    plan.replicas = 1;
    return plan;
  }
  JobPlan RoundsPlan() {
    JobPlan plan = Plan();
    plan.job.mutable_downpour()->clear_staleness_bound();
    plan.job.mutable_downpour()->mutable_local()->set_steps(10);
    plan.job.mutable_downpour()->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1.0);
    plan.job.mutable_downpour()->mutable_rounds();
    return plan;
  }
  absl::StatusOr<SetReply> Set(const std::vector<std::string>& settings,
                               const Requests::Judge& judge = Valid) {
    absl::StatusOr<SetReply> reply = h_.core().Set(SetOf("latest", settings), judge, h_.now());
    h_.Settle();
    return reply;
  }
  double RateOn(uint32_t shard) { return h_.shard(shard).settings["j-1"].optimizer().sgd().rate(); }
  int Count(const std::string& event) {
    const std::vector<std::string> events = h_.Events();
    return static_cast<int>(std::ranges::count(events, event));
  }
};

TEST_F(CoreSettingsTest, ARateIsToldToEachShardOnceAndAnEventTellsOfIt) {
  Start(Plan());
  Push(7);
  const auto reply = Set({kRate});
  ASSERT_OK(reply);
  EXPECT_EQ(reply->job(), "j-1");
  EXPECT_EQ(reply->revision(), 1u);
  ASSERT_EQ(reply->change_size(), 1);
  EXPECT_EQ(reply->change(0).path(), "downpour.optimizer.sgd.rate");
  EXPECT_EQ(reply->change(0).from(), "1");
  EXPECT_EQ(reply->change(0).to(), "0.25");
  EXPECT_EQ(RateOn(0), 0.25);
  EXPECT_EQ(RateOn(1), 0.25);
  EXPECT_EQ(EventText("set"), "downpour.optimizer.sgd.rate: 1 -> 0.25");
  EXPECT_EQ(EventText("settings_taken"), "revision 1: from push 8 on");
  Pass(5);
  EXPECT_EQ(h_.shard(0).settings_orders, 1);
  EXPECT_EQ(h_.shard(1).settings_orders, 1);
  EXPECT_EQ(h_.Describe().settings().revision(), 1u);
  EXPECT_EQ(h_.Describe().shard(1).settings_revision(), 1u);
  EXPECT_EQ(h_.Describe().shard(1).settings_from(), 8u);
  // What is so already is no change.
  EXPECT_EQ(Set({kRate})->revision(), 1u);
  EXPECT_EQ(Set({kRate})->change_size(), 0);
  EXPECT_EQ(Count("set"), 1);
}

TEST_F(CoreSettingsTest, AllOfACallOrNothing) {
  Start(Plan());
  EXPECT_THAT(Set({kRate, "downpour.n_push=4"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("downpour.n_push")));
  EXPECT_THAT(
      Set({kRate},
          [](const Job&, const Cluster&) { return absl::InvalidArgumentError("no such job"); }),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no such job")));
  EXPECT_EQ(h_.Describe().settings().revision(), 0u);
  EXPECT_EQ(h_.shard(0).settings_orders, 0);
  const auto reply = Set({"downpour.staleness_bound=8", kRate}, [](const Job& job, const Cluster&) {
    EXPECT_EQ(job.downpour().optimizer().sgd().rate(), 0.25);
    EXPECT_EQ(job.downpour().staleness_bound(), 8u);
    return absl::OkStatus();
  });
  ASSERT_OK(reply);
  EXPECT_EQ(reply->revision(), 1u);
  EXPECT_EQ(EventText("set"),
            "downpour.optimizer.sgd.rate: 1 -> 0.25; downpour.staleness_bound: 4 -> 8");
}

TEST_F(CoreSettingsTest, OnlyAJobThatTrainsTakesThem) {
  h_.Submit(Plan());
  EXPECT_THAT(Set({kRate}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("j-1 (PENDING) does not train yet")));
  EXPECT_THAT(h_.core().Set(SetOf("k-1", {kRate}), Valid, h_.now()),
              StatusIs(absl::StatusCode::kNotFound, _));
  h_.Poll();
  h_.Settle();
  h_.Join(0);
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  EXPECT_THAT(Set({kRate}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("does not train any more")));
  JobPlan batch = Plan();
  batch.job.clear_downpour();
  batch.job.mutable_sandblaster();
  h_.Submit(batch);
  EXPECT_THAT(Set({kRate}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("does not train asynchronously")));
}

TEST_F(CoreSettingsTest, WorkersHearWithEachHeartbeat) {
  Start(Plan());
  HeartbeatReply reply = h_.Beat(0);
  EXPECT_EQ(reply.assignment().settings_revision(), 0u);
  ASSERT_OK(Set({"downpour.staleness_bound=8"}));
  reply = h_.Beat(0);
  EXPECT_EQ(reply.assignment().settings_revision(), 1u);
  EXPECT_EQ(reply.assignment().job().downpour().staleness_bound(), 8u);
  HeartbeatRequest taken = h_.HeartbeatOf(0);
  *taken.mutable_session() = h_.session_[0];
  taken.mutable_stats();
  taken.set_settings_revision(1);
  ASSERT_OK(h_.core().Heartbeat(taken, h_.now()));
  EXPECT_EQ(h_.Describe().worker(0).settings_revision(), 1u);
}

TEST_F(CoreSettingsTest, MoreWorkersAreInvitedAndFewerAreRefused) {
  Start(Plan());
  h_.Beat(1);
  h_.Settle();
  EXPECT_FALSE(h_.Beat(1).has_assignment());
  const auto reply = Set({"downpour.workers=2"});
  ASSERT_OK(reply);
  EXPECT_THAT(reply->change(0).taken_by(), HasSubstr("coordinator"));
  EXPECT_TRUE(h_.Beat(1).has_assignment());
  EXPECT_THAT(Set({"downpour.workers=1"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("drain worker/1")));
  ASSERT_OK(Set({"downpour.workers=0"}));  // all that there are
  EXPECT_EQ(h_.Describe().settings().revision(), 2u);
}

TEST_F(CoreSettingsTest, AShardThatDidNotTakeThemIsToldAgain) {
  Start(Plan());
  h_.shard(1).settings_error = absl::UnavailableError("is draining");
  ASSERT_OK(Set({kRate}));
  EXPECT_EQ(RateOn(0), 0.25);
  EXPECT_EQ(RateOn(1), 1.0);
  Pass(5);
  EXPECT_EQ(Count("settings_not_taken ps/1"), 1) << "told once";
  h_.shard(1).settings_error = absl::OkStatus();
  Pass(3);
  EXPECT_EQ(RateOn(1), 0.25);
  EXPECT_EQ(h_.shard(0).settings_orders, 1);
}

TEST_F(CoreSettingsTest, ASliceThatIsMadeAnewHasThem) {
  h_.KeepState();
  Start(Plan());
  Push();
  Pass(12);
  ASSERT_OK(Set({kRate}));
  h_.shard(0).alive = false;
  Pass(1);
  h_.Restart(0);
  Pass(3);
  EXPECT_EQ(h_.shard(0).restores, 1);
  EXPECT_EQ(h_.shard(0).restore.create().settings_revision(), 1u);
  EXPECT_EQ(RateOn(0), 0.25);
  EXPECT_EQ(Count("settings_taken ps/0"), 1);
}

// The restore was ordered before the settings came, and carried out after.
TEST_F(CoreSettingsTest, ASliceThatWasMadeWithOlderOnesIsTold) {
  h_.KeepState();
  Start(Plan());
  Pass(12);
  h_.shard(0).alive = false;
  Pass(1);
  h_.Restart(0);
  h_.Poll();
  const std::vector<ShardCommand> commands = h_.core().TakeCommands(h_.now());
  ASSERT_OK(h_.core().Set(SetOf("latest", {kRate}), Valid, h_.now()));
  for (const ShardCommand& command : commands) {
    h_.core().OnCommand(command, h_.Answer(command), h_.now());
  }
  Pass(3);
  EXPECT_EQ(h_.shard(0).restore.create().settings_revision(), 0u);
  EXPECT_EQ(RateOn(0), 0.25);
}

TEST_F(CoreSettingsTest, ANewLifeOfTheCoordinatorKnowsAndGoesOnTelling) {
  h_.KeepState();
  Start(Plan());
  h_.shard(1).settings_error = absl::UnavailableError("is draining");
  ASSERT_OK(Set({kRate, "downpour.staleness_bound=8"}));
  ASSERT_OK(Set({"downpour.staleness_bound=9"}));
  h_.RestartCoordinator();
  h_.shard(1).settings_error = absl::OkStatus();
  h_.Poll();
  Pass(3);
  EXPECT_EQ(h_.Describe().settings().revision(), 2u);
  EXPECT_EQ(RateOn(1), 0.25);
  EXPECT_EQ(h_.shard(0).settings_orders, 2) << "its status says that it has them";
  EXPECT_EQ(h_.Beat(0).assignment().job().downpour().staleness_bound(), 9u);
  EXPECT_THAT(h_.Events(), Contains("set"));
}

TEST_F(CoreSettingsTest, CheckpointsHoldThemAndOneThatIsUnderWayStaysAsItWas) {
  h_.KeepState();
  Start(Plan());
  Push();
  h_.shard(0).disk_is_slow = h_.shard(1).disk_is_slow = true;
  ASSERT_OK(Ask());
  h_.Settle();
  ASSERT_OK(Set({kRate}));
  ASSERT_OK(Set({"downpour.optimizer.sgd.rate=0.5"}));
  Pass(3);  // the order is repeated, and CoreHarness compares the two
  h_.RestartCoordinator();
  h_.Poll();
  Pass(3);
  EXPECT_EQ(Context().job().downpour().optimizer().sgd().rate(), 1.0);
  h_.shard(0).disk_is_slow = h_.shard(1).disk_is_slow = false;
  h_.shard(0).Write();
  h_.shard(1).Write();
  Pass(1);
  Push();
  ASSERT_OK(Ask());
  Pass(1);
  EXPECT_EQ(Context().job().downpour().optimizer().sgd().rate(), 0.5);
  EXPECT_EQ(Context(1).job().downpour().staleness_bound(), 4u);
}

// ---- rounds ------------------------------------------------------------------

TEST_F(CoreSettingsTest, AllShardsChangeAtOneRound) {
  Start(RoundsPlan());
  h_.shard(0).version = 7;
  h_.shard(1).version = 8;  // a round ahead
  ASSERT_OK(Set({kRate, "downpour.rounds.quorum=1"}));
  for (const uint32_t shard : {0u, 1u}) {
    EXPECT_EQ(h_.shard(shard).settings_orders, 2);  // to end no round, and from which on
    EXPECT_EQ(h_.shard(shard).settings["j-1"].from_version(), 9u);
    EXPECT_EQ(h_.shard(shard).settings["j-1"].rounds().quorum(), 1u);
    EXPECT_TRUE(h_.shard(shard).held.empty());
  }
  EXPECT_EQ(EventText("settings_dated"), "revision 1: from round 9 on");
  EXPECT_EQ(h_.Describe().settings().from_round(), 9u);
  Pass(3);
  EXPECT_EQ(h_.shard(0).settings_orders, 2);
  h_.shard(0).version = h_.shard(1).version = 20;
  ASSERT_OK(Set({"downpour.rounds.quorum=0"}));
  EXPECT_EQ(h_.shard(1).settings["j-1"].from_version(), 21u);
  EXPECT_EQ(h_.Describe().settings().from_round(), 21u);
}

TEST_F(CoreSettingsTest, NoShardHoldsItsRoundsWhileAnotherOneIsAway) {
  h_.KeepState();
  Start(RoundsPlan());
  Push();
  Pass(12);
  h_.shard(1).alive = false;
  Pass(5);
  ASSERT_OK(Set({kRate}));
  EXPECT_TRUE(h_.shard(0).held.empty());
  EXPECT_FALSE(h_.Describe().settings().has_from_round());
  h_.Restart(1);
  Pass(3);
  EXPECT_EQ(RateOn(0), 0.25);
  EXPECT_EQ(RateOn(1), 0.25);
  EXPECT_TRUE(h_.Describe().settings().has_from_round());
}

TEST_F(CoreSettingsTest, ANewLifeEndsWhatAnotherOneHasHeld) {
  h_.KeepState();
  Start(RoundsPlan());
  Push(3);
  Pass(12);
  h_.shard(1).settings_error = absl::UnavailableError("is draining");
  ASSERT_OK(Set({kRate}));
  EXPECT_FALSE(h_.shard(0).held.empty());
  h_.shard(1).version = 4;
  h_.RestartCoordinator();
  h_.shard(1).settings_error = absl::OkStatus();
  h_.Poll();
  Pass(3);
  EXPECT_TRUE(h_.shard(0).held.empty());
  EXPECT_EQ(h_.shard(0).settings["j-1"].from_version(), 5u);
  EXPECT_EQ(h_.shard(1).settings["j-1"].from_version(), 5u);
  // The round that is agreed on outlives the coordinator, too.
  h_.RestartCoordinator();
  h_.Poll();
  Pass(2);
  EXPECT_EQ(h_.Describe().settings().from_round(), 5u);
}

TEST_F(CoreSettingsTest, TheNewestOfTwoIsWhatShardsTake) {
  Start(RoundsPlan());
  h_.shard(1).settings_error = absl::UnavailableError("is draining");
  ASSERT_OK(Set({kRate}));
  ASSERT_OK(Set({"downpour.optimizer.sgd.rate=0.125"}));
  h_.shard(1).settings_error = absl::OkStatus();
  Pass(3);
  for (const uint32_t shard : {0u, 1u}) {
    EXPECT_EQ(RateOn(shard), 0.125);
    EXPECT_EQ(h_.shard(shard).settings["j-1"].revision(), 2u);
  }
  EXPECT_THAT(h_.Events(), Not(Contains("settings_late ps/0")));
}

// ---- programs ----------------------------------------------------------------

using CoreEnterSettingsTest = testing::CoreEnterTest;

TEST_F(CoreEnterSettingsTest, ProgramsGoOnEnteringWithWhatTheyWereWrittenWith) {
  JobPlan plan = Joined("gpt");
  plan.job.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(1.0);
  EnterUntilItTrains(1, plan);
  Join(1, "gpt-1");
  ASSERT_OK(h_.core().Set(SetOf("gpt-1", {kRate}), Valid, h_.now()));
  h_.Settle();
  EXPECT_EQ(h_.shard(0).settings["gpt-1"].optimizer().sgd().rate(), 0.25);
  const auto again = h_.core().Enter(RequestOf(2, plan), plan, h_.now());
  ASSERT_OK(again);
  EXPECT_EQ(again->config().downpour().optimizer().sgd().rate(), 0.25);
  plan.job.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(0.25);
  EXPECT_THAT(h_.core().Enter(RequestOf(3, plan), plan, h_.now()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has other settings")));
  EXPECT_THAT(h_.core().Set(SetOf("gpt-1", {"downpour.local.steps=4"}), Valid, h_.now()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("downpour.local.steps"), HasSubstr("programs' own"))));
}

}  // namespace
}  // namespace monsoon
