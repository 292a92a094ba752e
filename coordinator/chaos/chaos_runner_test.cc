#include "coordinator/chaos/chaos_runner.h"

#include <map>
#include <set>
#include <tuple>

#include "coordinator/chaos/chaos_runner_fixture.h"

namespace monsoon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

using Fault = ChaosPlan::Fault;

TEST_F(ChaosRunnerTest, AnEntryKillsAgainOnceTheTaskIsBackAndAPauseIsOver) {
  Start("fault { task: 'ps/1' kind: KILL times: 3 pause_s { min: 1 max: 2 } from_s: 4 }");
  Run();
  EXPECT_TRUE(runner_->complete());
  EXPECT_EQ(runner_->planned(), 3u);
  const std::vector<FaultRecord>& faults = runner_->faults();
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[0].at, absl::Seconds(4));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(faults[i].task, "ps/1");
    EXPECT_EQ(faults[i].pid, 102 + 100 * i);
    EXPECT_EQ(faults[i].back_pid, 202 + 100 * i);
    EXPECT_FALSE(faults[i].lasted.has_value());
    ASSERT_TRUE(faults[i].back_after.has_value());
    EXPECT_GE(*faults[i].back_after, absl::Milliseconds(500));
    EXPECT_LE(*faults[i].back_after, absl::Milliseconds(520));
    if (i > 0) {
      const absl::Duration pause = faults[i].at - faults[i - 1].at - *faults[i - 1].back_after;
      EXPECT_GE(pause, absl::Seconds(1));
      EXPECT_LE(pause, absl::Seconds(2) + 2 * kTick);
    }
  }
  EXPECT_NE(faults[1].at - faults[0].at, faults[2].at - faults[1].at);
}

TEST_F(ChaosRunnerTest, TheSeedSaysWhichTasksAndHowLong) {
  using Row = std::tuple<std::string, int, absl::Duration>;
  const auto rows = [&](int seed, absl::Duration back_after) {
    Reset();
    back_after_ = back_after;
    Start(absl::StrCat("seed: ", seed,
                       " fault { task: '*' kind: KILL times: 20 pause_s { min: 0.1 max: 2 } }"
                       " fault { task: ['ps/*', 'worker/1'] kind: STOP times: 20"
                       "         lasts_s { min: 0.1 max: 3 } }"));
    Run();
    EXPECT_TRUE(runner_->complete());
    std::vector<Row> result;
    for (const Fault::Kind kind : {Fault::KILL, Fault::STOP}) {
      for (const FaultRecord& fault : runner_->faults()) {
        if (fault.kind == kind) {
          // To a tick.
          const absl::Duration lasted = absl::Floor(
              fault.lasted.value_or(absl::ZeroDuration()) - kTick / 2, absl::Milliseconds(100));
          result.emplace_back(fault.task, kind, lasted);
        }
      }
    }
    return result;
  };
  const std::vector<Row> first = rows(1, absl::Milliseconds(500));
  EXPECT_EQ(first.size(), 40u);
  EXPECT_EQ(rows(1, absl::Milliseconds(500)), first);
  EXPECT_NE(rows(2, absl::Milliseconds(500)), first);
  // Which task is hit does not depend on how fast they come back.
  EXPECT_EQ(rows(1, absl::Milliseconds(1730)), first);
}

TEST_F(ChaosRunnerTest, NeverTwoFaultsOnOneTask) {
  for (int seed = 0; seed < 30; ++seed) {
    Reset();
    Start(absl::StrCat(
        "seed: ", seed,
        " fault { task: ['ps/*', 'worker/0'] kind: KILL times: 15 pause_s { min: 0 max: 0.5 } }"
        " fault { task: ['ps/0', 'worker/*'] kind: STOP times: 15 lasts_s { min: 0.1 max: 1 } }"
        " fault { task: 'ps/*' kind: SLOW times: 15 lasts_s { min: 0.1 max: 1 } }"
        " fault { task: '*' kind: KILL times: 15 pause_s { min: 0 max: 1 } }"));
    Run();
    ASSERT_TRUE(runner_->complete());
    std::map<std::string, absl::Duration> free_from;
    for (const FaultRecord& fault : runner_->faults()) {
      const auto before = free_from.find(fault.task);
      EXPECT_TRUE(before == free_from.end() || fault.at >= before->second)
          << "seed " << seed << ": " << fault.task << " at " << fault.at;
      free_from[fault.task] =
          fault.at + fault.lasted.value_or(absl::ZeroDuration()) + *fault.back_after;
    }
    // A stop is never left.
    std::map<std::string, bool> stopped;
    for (const SentSignal& signal : signals_) {
      stopped[signal.task] = signal.act == Act::kStop;
    }
    for (const auto& [task, is] : stopped) {
      EXPECT_FALSE(is) << task;
    }
  }
}

TEST_F(ChaosRunnerTest, EntriesRunSideBySide) {
  Start(
      "fault { task: 'ps/0' kind: KILL times: 2 pause_s { min: 5 } }"
      "fault { task: 'worker/0' kind: STOP lasts_s { min: 2 } }");
  Run();
  ASSERT_THAT(Tasks(), ElementsAre("ps/0", "worker/0", "ps/0"));
  EXPECT_EQ(runner_->faults()[0].at, runner_->faults()[1].at);
}

TEST_F(ChaosRunnerTest, AStoppedTaskGoesOnAfterItsTime) {
  Start("fault { task: 'worker/1' kind: STOP lasts_s { min: 0.3 max: 0.7 } times: 4 }");
  Run();
  ASSERT_EQ(signals_.size(), 8u);
  for (size_t i = 0; i < signals_.size(); i += 2) {
    EXPECT_EQ(signals_[i].act, Act::kStop);
    EXPECT_EQ(signals_[i + 1].act, Act::kContinue);
    const absl::Duration lasted = signals_[i + 1].at - signals_[i].at;
    EXPECT_GE(lasted, absl::Milliseconds(300));
    EXPECT_LE(lasted, absl::Milliseconds(710));
    EXPECT_EQ(runner_->faults()[i / 2].lasted, lasted);
    EXPECT_TRUE(runner_->faults()[i / 2].back_after.has_value());
  }
  EXPECT_NE(signals_[1].at - signals_[0].at, signals_[3].at - signals_[2].at);
}

TEST_F(ChaosRunnerTest, ASlowTaskIsStoppedForItsShareOfEachPeriod) {
  Start("fault { task: 'ps/0' kind: SLOW lasts_s { min: 4 } share: 0.75 period_s: 0.4 }");
  Run();
  absl::Duration stopped;
  for (size_t i = 0; i + 1 < signals_.size(); ++i) {
    ASSERT_NE(signals_[i].act, signals_[i + 1].act);
    if (signals_[i].act == Act::kStop) {
      stopped += signals_[i + 1].at - signals_[i].at;
    }
  }
  EXPECT_EQ(signals_.size(), 20u);
  EXPECT_EQ(signals_.back().act, Act::kContinue);
  EXPECT_EQ(stopped, absl::Seconds(3));
  EXPECT_EQ(runner_->faults().size(), 1u);
  EXPECT_EQ(runner_->faults()[0].lasted, absl::Seconds(4));
}

TEST_F(ChaosRunnerTest, IsBackOnlyWithItsSliceRestored) {
  restores_ = false;
  Start("fault { task: 'ps/0' kind: KILL times: 2 }");
  Run(absl::Seconds(20));
  EXPECT_EQ(runner_->faults().size(), 1u);
  EXPECT_FALSE(runner_->faults()[0].over);
  EXPECT_TRUE(runner_->Disturbs("ps/0"));
  EXPECT_FALSE(runner_->Disturbs("ps/1"));
  Restore(0);
  restores_ = true;
  Run();
  EXPECT_TRUE(runner_->complete());
  EXPECT_GE(*runner_->faults()[0].back_after, absl::Seconds(19));
}

// What the coordinator said before the signal may be what was so before it.
TEST_F(ChaosRunnerTest, AnOldViewShowsNobodyBack) {
  answers_ = false;
  view_.asked_at = now_;
  Start("fault { task: 'worker/0' kind: STOP lasts_s { min: 0.1 } }");
  Run(absl::Seconds(5));
  EXPECT_FALSE(runner_->faults().at(0).over);
  answers_ = true;
  Run();
  EXPECT_TRUE(runner_->complete());
}

TEST_F(ChaosRunnerTest, AwaitsANewerGenerationBeforeEachFault) {
  Start("fault { task: 'ps/0' kind: KILL times: 2 await_checkpoint: true }");
  Run(absl::Seconds(10));
  EXPECT_THAT(Tasks(), ElementsAre());
  view_.job.mutable_durability()->set_generation(4);
  Run(absl::Seconds(10));
  EXPECT_THAT(Tasks(), ElementsAre("ps/0"));
  view_.job.mutable_durability()->set_generation(5);
  Run();
  EXPECT_THAT(Tasks(), ElementsAre("ps/0", "ps/0"));
  EXPECT_TRUE(runner_->complete());
}

// One that came while the task was away does not count.
TEST_F(ChaosRunnerTest, AGenerationMustBeOfTheNewLife) {
  view_.job.mutable_durability()->set_generation(1);
  Start("fault { task: 'ps/0' kind: KILL times: 2 await_checkpoint: true }");
  Tick();
  view_.job.mutable_durability()->set_generation(2);
  Run(absl::Seconds(10));
  EXPECT_EQ(runner_->faults().size(), 1u);
  view_.job.mutable_durability()->set_generation(3);
  Run();
  EXPECT_TRUE(runner_->complete());
}

TEST_F(ChaosRunnerTest, AStarMeansTasksOfThisMachineThatAreUp) {
  Task("worker/0").elsewhere = "it is far away";
  Task("worker/1").state = "NEVER SEEN";
  Start("fault { task: 'worker/*' kind: KILL times: 5 }");
  Run();
  EXPECT_TRUE(runner_->complete());
  EXPECT_THAT(Tasks(), Each("worker/2"));
}

TEST_F(ChaosRunnerTest, AStarReachesAll) {
  Start("fault { task: '*' kind: KILL times: 100 }");
  Run();
  const std::vector<std::string> tasks = Tasks();
  EXPECT_EQ(std::set<std::string>(tasks.begin(), tasks.end()).size(), view_.tasks.size());
}

TEST_F(ChaosRunnerTest, SaysWhenItHasSomethingToDo) {
  Start("fault { task: 'ps/0' kind: SLOW lasts_s { min: 4 } share: 0.25 period_s: 2 from_s: 3 }");
  EXPECT_EQ(runner_->wake_at(), start_ + absl::Seconds(3));
  Run(absl::Seconds(3));
  EXPECT_EQ(runner_->wake_at(), start_ + absl::Seconds(3.5));
  Run(absl::Seconds(0.5));
  EXPECT_EQ(runner_->wake_at(), start_ + absl::Seconds(5));
  Run(absl::Seconds(3));
  EXPECT_EQ(runner_->wake_at(), start_ + absl::Seconds(7));
  Run(absl::Seconds(0.5));
  EXPECT_EQ(runner_->wake_at(), absl::InfiniteDuration());
}

}  // namespace
}  // namespace monsoon
