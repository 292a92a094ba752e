// Rates that follow the test set: what shards are told of them, and when.
#include <algorithm>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "coordinator/core/core_checkpoints_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::Contains;

class CoreRatesTest : public testing::CoreCheckpointsTest {
 protected:
  JobPlan Plan(double epochs = 100) {
    JobPlan plan = h_.Plan(epochs);
    plan.job.mutable_test()->mutable_synthetic()->set_examples(100);
    plan.job.mutable_evaluation()->set_every_epochs(1);
    plan.job.mutable_downpour()
        ->mutable_optimizer()
        ->mutable_schedule()
        ->mutable_plateau()
        ->set_patience(1);
    return plan;
  }
  // Runs over the test set, all with the same figures.
  void Evaluate(int runs) {
    for (int i = 0; i < 60 * runs && runs > 0; ++i) {
      const absl::StatusOr<NextWorkReply> reply = h_.Ask(0);
      ASSERT_OK(reply);
      if (reply->has_evaluate()) {
        ASSERT_OK(h_.ReportEvaluation(0, reply->evaluate().evaluation(), 90));
        --runs;
      }
    }
    ASSERT_EQ(runs, 0);
    h_.Settle();
  }
};

TEST_F(CoreRatesTest, ShardsAreToldOnceEach) {
  Start(Plan());
  Evaluate(1);
  EXPECT_EQ(h_.shard(0).rate_orders, 0);
  Evaluate(1);
  EXPECT_EQ(h_.shard(0).reductions["j-1"], 1u);
  EXPECT_EQ(h_.shard(1).reductions["j-1"], 1u);
  EXPECT_EQ(h_.Describe().rate_factor(), 0.5);
  EXPECT_THAT(h_.Events(), Contains("rate_reduced"));
  Pass(5);
  EXPECT_EQ(h_.shard(0).rate_orders, 1);
  Evaluate(2);
  EXPECT_EQ(h_.shard(1).reductions["j-1"], 3u);
}

TEST_F(CoreRatesTest, AShardThatDidNotTakeItIsToldAgain) {
  Start(Plan());
  h_.shard(1).rate_error = absl::UnavailableError("is draining");
  Evaluate(2);
  EXPECT_EQ(h_.shard(0).reductions["j-1"], 1u);
  EXPECT_EQ(h_.shard(1).reductions["j-1"], 0u);
  EXPECT_THAT(h_.Events(), Contains("rate_not_reduced ps/1"));
  Pass(5);
  const std::vector<std::string> events = h_.Events();
  EXPECT_EQ(std::ranges::count(events, "rate_not_reduced ps/1"), 1) << "told once";
  h_.shard(1).rate_error = absl::OkStatus();
  Pass(3);
  EXPECT_EQ(h_.shard(1).reductions["j-1"], 1u);
}

TEST_F(CoreRatesTest, AShardThatWasStartedAnewIsToldAgain) {
  h_.KeepState();
  Start(Plan());
  Evaluate(2);
  Pass(12);
  h_.shard(0).alive = false;
  Pass(1);
  h_.Restart(0);
  Pass(3);
  EXPECT_EQ(h_.shard(0).restores, 1);
  EXPECT_EQ(h_.shard(0).reductions["j-1"], 1u);
  EXPECT_EQ(h_.shard(1).rate_orders, 1);
}

TEST_F(CoreRatesTest, ANewLifeOfTheCoordinatorKnows) {
  h_.KeepState();
  Start(Plan());
  h_.shard(1).rate_error = absl::UnavailableError("is draining");
  Evaluate(2);
  h_.RestartCoordinator();
  h_.shard(1).rate_error = absl::OkStatus();
  h_.Poll();
  Pass(3);
  EXPECT_EQ(h_.Describe().rate_factor(), 0.5);
  EXPECT_EQ(h_.shard(1).reductions["j-1"], 1u);
  EXPECT_EQ(h_.shard(0).rate_orders, 1);
}

TEST_F(CoreRatesTest, CheckpointsHoldIt) {
  h_.KeepState();
  Start(Plan());
  Evaluate(3);
  Push();
  ASSERT_OK(Ask());
  Pass(1);
  const Schedule& schedule = Context().job().downpour().optimizer().schedule();
  EXPECT_EQ(schedule.plateau().reductions(), 2u);
  EXPECT_EQ(schedule.plateau().patience(), 1u);
  EXPECT_EQ(Context().job().stop().epochs(), 100);
}

TEST_F(CoreRatesTest, AnEarlyStopIsASuccessWithItsReason) {
  JobPlan plan = Plan();
  plan.job.mutable_stop()->mutable_early()->set_metric(TEST_LOSS);
  plan.job.mutable_stop()->mutable_early()->set_patience(2);
  Start(plan);
  Evaluate(3);
  h_.TrainToTheEnd(0);
  Pass(2);
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.Reason(), "stopped early: the test loss has not become better in 2 evaluations");
}

}  // namespace
}  // namespace monsoon
