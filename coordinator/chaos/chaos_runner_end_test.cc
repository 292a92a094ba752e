// How faults and runs end that do not end as planned.
#include "coordinator/chaos/chaos_runner_fixture.h"

namespace monsoon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ChaosRunnerTest, AGenerationHasADeadline) {
  view_.job.mutable_durability()->set_error("ps/1: no space left on device");
  Start("checkpoint_within_s: 7 fault { task: 'ps/0' kind: KILL await_checkpoint: true }");
  Run();
  EXPECT_EQ(runner_->failure(),
            "no generation of j-1 after 0 is held 7.0 s after the next KILL of ps/0 was due: ps/1: "
            "no space left on device");
  EXPECT_FALSE(runner_->complete());
}

TEST_F(ChaosRunnerTest, ATaskThatDoesNotComeBackIsNamed) {
  back_after_.reset();
  view_.job.mutable_summary()->set_reason("waits for ps/0");
  Start("back_within_s: 3 fault { task: 'ps/0' kind: KILL times: 2 from_s: 1 }");
  Run(absl::Seconds(2));
  Task("ps/0").state = "LOST";
  Run();
  EXPECT_EQ(runner_->failure(),
            "ps/0 (pid 101) is not back 3.0 s after its KILL at 1.0 s: it is LOST; j-1 waits for "
            "ps/0");
  EXPECT_EQ(now_ - start_, absl::Seconds(4) + kTick);
}

TEST_F(ChaosRunnerTest, ATaskThatIsNotThereWhenItsFaultIsDueIsNamed) {
  for (const char* worker : {"worker/0", "worker/1", "worker/2"}) {
    Task(worker).state = "LOST";
  }
  Start("back_within_s: 3 fault { task: 'worker/*' kind: KILL }");
  Run();
  EXPECT_EQ(runner_->failure(),
            "worker/*: no such task was there to be signalled 3.0 s after its next KILL was due");
}

TEST_F(ChaosRunnerTest, AProcessThatIsNeverThereHasADeadline) {
  gone_ = {"ps/0"};
  Start("back_within_s: 3 fault { task: 'ps/0' kind: STOP lasts_s { min: 1 } }");
  Run(absl::Seconds(10));
  EXPECT_THAT(runner_->failure(), HasSubstr("ps/0: no such task was there to be signalled 3.0 s"));
  EXPECT_GT(signals_.size(), 1u);
}

// The others wait for what the coordinator says of them.
TEST_F(ChaosRunnerTest, ACoordinatorThatIsStoppedTakesNoTimeFromOthers) {
  Start(
      "back_within_s: 3"
      " fault { task: 'worker/0' kind: KILL }"
      " fault { task: 'coordinator/0' kind: STOP lasts_s { min: 10 } }");
  Tick();
  answers_ = false;
  Run(absl::Seconds(10));
  answers_ = true;
  Run();
  EXPECT_EQ(runner_->failure(), "");
  EXPECT_TRUE(runner_->complete());
}

TEST_F(ChaosRunnerTest, NobodyStartsAWorkerAgainThatLeftOrIsAGuest) {
  back_after_.reset();
  Task("worker/2").guest = true;
  Start(
      "fault { task: 'worker/0' kind: TERMINATE } fault { task: 'worker/2' kind: KILL }"
      "fault { task: 'worker/*' kind: STOP lasts_s { min: 1 } times: 10 from_s: 6 }");
  Run(absl::Seconds(2));
  EXPECT_FALSE(runner_->faults().at(0).over);
  Task("worker/0").state = "LEFT";
  Run(absl::Seconds(2));
  EXPECT_TRUE(runner_->faults().at(0).over);
  EXPECT_FALSE(runner_->faults().at(1).over);
  Task("worker/2").state = "LOST";
  Run(absl::Seconds(1));
  EXPECT_TRUE(runner_->faults().at(1).over);
  EXPECT_FALSE(runner_->faults().at(1).back_after.has_value());
  Run();
  EXPECT_TRUE(runner_->complete());
  const std::vector<std::string> tasks = Tasks();
  EXPECT_THAT(std::vector<std::string>(tasks.begin() + 2, tasks.end()), Each("worker/1"));
}

TEST_F(ChaosRunnerTest, AShardThatWasTerminatedMustComeBack) {
  Start("back_within_s: 2 fault { task: 'ps/0' kind: TERMINATE times: 2 }");
  Run();
  EXPECT_TRUE(runner_->complete());
  EXPECT_EQ(signals_.at(0).act, Act::kTerminate);
  Reset();
  back_after_.reset();
  Start("back_within_s: 2 fault { task: 'ps/0' kind: TERMINATE }");
  Tick();
  Task("ps/0").state = "LOST";
  Run();
  EXPECT_THAT(runner_->failure(), HasSubstr("ps/0 (pid 101) is not back"));
}

TEST_F(ChaosRunnerTest, AWorkerThatIsOnlyExpectedIsNotBack) {
  back_after_.reset();
  Start("fault { task: 'worker/0' kind: KILL times: 2 }");
  Tick();
  Task("worker/0").pid = 0;
  Run(absl::Seconds(5));
  EXPECT_FALSE(runner_->faults().at(0).over);
  Task("worker/0").pid = 700;
  Run(absl::Seconds(1));
  EXPECT_EQ(runner_->faults().at(0).back_pid, 700u);
  EXPECT_EQ(runner_->faults().at(1).pid, 700u);
}

TEST_F(ChaosRunnerTest, AProcessThatIsGoneIsTriedAgainWithANewerView) {
  gone_ = {"ps/0"};
  answers_ = false;
  view_.asked_at = now_;
  Start("fault { task: 'ps/0' kind: KILL }");
  Run(absl::Seconds(1));
  EXPECT_EQ(signals_.size(), 1u);
  EXPECT_THAT(Tasks(), ElementsAre());
  gone_.clear();
  Task("ps/0").pid = 777;
  Restore(0);
  answers_ = true;
  Run();
  ASSERT_EQ(runner_->faults().size(), 1u);
  EXPECT_EQ(runner_->faults()[0].pid, 777u);
}

TEST_F(ChaosRunnerTest, ASlowTaskThatDiesByItselfMustComeBackToo) {
  Start("fault { task: 'ps/0' kind: SLOW lasts_s { min: 60 } }");
  Run(absl::Seconds(1));
  gone_ = {"ps/0"};
  Task("ps/0").state = "LOST";
  Run(absl::Seconds(1));
  ASSERT_TRUE(runner_->faults().at(0).lasted.has_value());
  EXPECT_LT(*runner_->faults()[0].lasted, absl::Seconds(2));
  EXPECT_FALSE(runner_->faults()[0].over);
  Task("ps/0").pid = 500;
  Task("ps/0").state = "UP";
  Run();
  EXPECT_EQ(runner_->faults()[0].back_pid, 500u);
}

TEST_F(ChaosRunnerTest, BeginsNothingOnceItsTimeIsOver) {
  Start("seconds: 5 fault { task: 'ps/0' kind: KILL times: 100 pause_s { min: 1 } }");
  Run();
  EXPECT_TRUE(runner_->finished());
  EXPECT_FALSE(runner_->complete());
  EXPECT_EQ(runner_->faults().size(), 4u);
  EXPECT_TRUE(runner_->faults().back().over);

  Reset();
  Start("seconds: 5 fault { task: 'ps/0' kind: STOP lasts_s { min: 1 } until_the_end: true }");
  EXPECT_FALSE(runner_->planned().has_value());
  Run();
  EXPECT_TRUE(runner_->complete());
  EXPECT_EQ(signals_.back().act, Act::kContinue);
  EXPECT_GE(now_ - start_, absl::Seconds(5));
  EXPECT_LE(now_ - start_, absl::Seconds(6.1));
}

TEST_F(ChaosRunnerTest, LetsGoOfWhatItStoppedWhenTheJobEnds) {
  Start(
      "fault { task: 'ps/0' kind: STOP lasts_s { min: 60 } }"
      "fault { task: 'ps/1' kind: KILL from_s: 50 }");
  Run(absl::Seconds(2));
  view_.job.mutable_summary()->set_state(SUCCEEDED);
  Tick();
  EXPECT_EQ(signals_.size(), 2u);
  EXPECT_EQ(signals_[1].act, Act::kContinue);
  Run();
  EXPECT_THAT(Tasks(), ElementsAre("ps/0"));
  EXPECT_FALSE(runner_->complete());
}

TEST_F(ChaosRunnerTest, ACutLetsAllGoOn) {
  Start(
      "fault { task: 'ps/0' kind: STOP lasts_s { min: 60 } }"
      "fault { task: 'worker/0' kind: SLOW lasts_s { min: 60 } period_s: 10 }"
      "fault { task: 'worker/1' kind: KILL }");
  Tick();
  EXPECT_EQ(signals_.size(), 3u);
  runner_->Cut(now_, [this](const ChaosStep& step) { return Take(step); });
  ASSERT_EQ(signals_.size(), 5u);
  EXPECT_EQ(signals_[3].act, Act::kContinue);
  EXPECT_EQ(signals_[3].task, "ps/0");
  EXPECT_EQ(signals_[4].act, Act::kContinue);
  EXPECT_EQ(signals_[4].task, "worker/0");
  Run(absl::Seconds(1));
  EXPECT_EQ(signals_.size(), 5u);
}

}  // namespace
}  // namespace monsoon
