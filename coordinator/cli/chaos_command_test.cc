// `chaos` against a cluster of which everything is a fake; and, last, a real process.
#include <sys/wait.h>

#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "common/testing/status_matchers.h"
#include "coordinator/chaos/fake_task_fixture.h"
#include "coordinator/cli/cli_fixture.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// Tasks that are killed come back after a second as other processes; a coordinator that is
// away answers nothing.
class ChaosCommandTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    for (const char* name : {"coordinator/0", "ps/0", "ps/1", "worker/0"}) {
      pids_[name] = static_cast<uint32_t>(10 + pids_.size());
    }
    job_ = Description(RUNNING);
    job_.mutable_durability()->set_promise("exactly_once");
    job_.mutable_durability()->set_generation(3);
    cli_.coordinator.info = [this] { return Info(); };
    cli_.coordinator.describe = [this]() -> absl::StatusOr<JobDescription> {
      return away_until_ > cli_.clock.Now() ? absl::StatusOr<JobDescription>(kDown) : Describe();
    };
    cli_.signals.on_signal = [this](const std::string& signal, const TaskView& task) {
      if (signal == "KILL" || signal == "TERM") {
        back_at_[task.name] = cli_.clock.Now() + back_after_;
        if (task.name == "coordinator/0") {
          away_until_ = back_at_[task.name];
        }
      }
    };
  }

  InfoReply Info() {
    for (auto& [task, at] : back_at_) {
      if (at <= cli_.clock.Now()) {
        pids_[task] += 100;
        at = absl::InfiniteDuration();
      }
    }
    InfoReply info;
    info.set_pid(pids_["coordinator/0"]);
    for (const auto& [name, pid] : pids_) {
      if (name != "coordinator/0") {
        TaskStatus* const task = info.add_task();
        task->set_task(name);
        task->set_pid(pid);
        task->set_address("unix:/" + name);
        task->set_state("UP");
      }
    }
    return info;
  }

  JobDescription Describe() {
    if (cli_.clock.Now() >= ends_at_) {
      job_.mutable_summary()->set_state(end_);
    }
    job_.clear_shard();
    for (const uint32_t shard : {0, 1}) {
      job_.add_shard()->set_task(shard);
      job_.mutable_shard(static_cast<int>(shard))->set_pid(pids_[absl::StrCat("ps/", shard)]);
    }
    JobDescription::Counts* const counts = job_.mutable_counts();
    counts->set_pushes(100 + static_cast<uint64_t>(absl::ToInt64Seconds(cli_.clock.Now())));
    counts->set_replayed(7 * back_at_.size());
    return job_;
  }

  std::string Plan(const std::string& text) { return Write("plan.textproto", text); }
  int Chaos(const std::string& text, std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"chaos", "--plan=" + Plan(text)};
    args.insert(args.end(), more.begin(), more.end());
    return Run(args);
  }

  std::map<std::string, uint32_t> pids_;
  std::map<std::string, absl::Duration> back_at_;
  absl::Duration back_after_ = absl::Seconds(1);
  absl::Duration away_until_ = -absl::InfiniteDuration();
  JobDescription job_;
  absl::Duration ends_at_ = absl::InfiniteDuration();
  JobState end_ = SUCCEEDED;
};

constexpr char kTwoFaults[] =
    "seed: 5 fault { task: 'ps/1' kind: KILL from_s: 1 }"
    " fault { task: 'worker/0' kind: STOP lasts_s { min: 2 } }";

TEST_F(ChaosCommandTest, ReportsWhatWasDoneAndWhatTheJobLost) {
  ends_at_ = absl::Seconds(10);
  LostPushes* const lost = job_.mutable_durability()->add_lost();
  lost->set_shard(1);
  lost->set_worker(2);
  lost->set_incarnation(1);
  lost->set_from(13);
  lost->set_to(20);
  EXPECT_EQ(Chaos(kTwoFaults, {"--json"}), 0);
  const std::string report = cli_.out();
  EXPECT_THAT(
      report,
      AllOf(StartsWith(R"({"schema_version":1,"job":"tiny-1","state":"SUCCEEDED","reason":"",)"
                       R"("error":null,"seed":5,"elapsed_s":10,)"),
            HasSubstr(R"("planned":2,"faults":[{"at_s":0,"task":"worker/0","pid":13,)"
                      R"("kind":"STOP","seconds":2,"back_after_s":0.05},{"at_s":1,"task":"ps/1",)"
                      R"("pid":12,"kind":"KILL","seconds":null,"back_after_s":1)"),
            HasSubstr(R"("by_kind":{"KILL":1,"TERMINATE":0,"STOP":1,"SLOW":0},)"),
            HasSubstr(R"("durability":{"promise":"exactly_once","generation":3,)"),
            HasSubstr(R"("lost":[{"shard":1,"worker":2,"incarnation":1,"from":13,"to":20,)"),
            HasSubstr(R"("counts":{"before":{"pushes":100,"duplicates":0,"replayed":0},)"
                      R"("after":{"pushes":110,"duplicates":0,"replayed":7}}})")));
  EXPECT_EQ(report.find('\n'), report.size() - 1);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("t=0.0 STOP worker/0 (pid 13)\n"),
                                HasSubstr("t=1.0 KILL ps/1 (pid 12)\n"),
                                HasSubstr(" worker/0 is back after 0."),
                                HasSubstr(" ps/1 is back after 1.0 s, pid 112\n")));
  EXPECT_THAT(cli_.signals.sent,
              ElementsAre("STOP worker/0 13", "KILL ps/1 12", "CONT worker/0 13"));
}

TEST_F(ChaosCommandTest, ReportsATableForPeople) {
  ends_at_ = absl::Seconds(10);
  EXPECT_EQ(Chaos(kTwoFaults), 0);
  EXPECT_THAT(
      cli_.out(),
      AllOf(StartsWith("    at s  task                pid  kind       seconds  back after s\n"
                       "     0.0  worker/0             13  STOP           2.0           0.1\n"
                       "     1.0  ps/1                 12  KILL             -           1.0\n"
                       "faults       2 of 2 done: 1 KILL, 1 STOP; in 10.0 s, seed 5\n"
                       "job          tiny-1 SUCCEEDED\n"),
            HasSubstr("counts       100 -> 110 pushes, 0 -> 0 duplicates, 0 -> 7 records"),
            HasSubstr("promise      exactly_once, generation 3\n"
                      "lost         nothing that is known of\n")));
  LostPushes* const lost = job_.mutable_durability()->add_lost();
  lost->set_worker(2);
  lost->set_incarnation(1);
  lost->set_from(13);
  lost->set_to_at_least(20);
  job_.mutable_summary()->set_state(RUNNING);
  ends_at_ = absl::Seconds(100);
  EXPECT_EQ(Chaos(kTwoFaults), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("lost         pushes 13 to 20 at least of worker/2#1 on ps/0"));
}

TEST_F(ChaosCommandTest, EndsWhenAllIsDoneWhereThePlanHasATime) {
  EXPECT_EQ(Chaos(absl::StrCat("seconds: 60 ", kTwoFaults)), 0);
  EXPECT_LT(cli_.clock.Now(), absl::Seconds(3));
  EXPECT_THAT(cli_.out(), HasSubstr("job          tiny-1 RUNNING\n"));
}

TEST_F(ChaosCommandTest, SaysThatNotAllWasDone) {
  EXPECT_EQ(Chaos("seconds: 3 fault { task: 'ps/0' kind: KILL times: 9 pause_s { min: 1 } }"), 4);
  EXPECT_THAT(cli_.out(), HasSubstr("faults       2 of 9 done: 2 KILL"));
  EXPECT_THAT(cli_.err(), HasSubstr("not all faults of the plan were done before the plan's time "
                                    "was over"));
  ends_at_ = cli_.clock.Now() + absl::Seconds(2);
  EXPECT_EQ(Chaos("fault { task: 'ps/0' kind: KILL times: 9 pause_s { min: 1 } }"), 4);
  EXPECT_THAT(cli_.err(), HasSubstr("not all faults of the plan were done before tiny-1 ended"));
}

TEST_F(ChaosCommandTest, TheJobsEndIsTheExitCode) {
  end_ = FAILED;
  job_.mutable_summary()->set_reason("ps/1 has lost its slice");
  ends_at_ = absl::Seconds(5);
  EXPECT_EQ(Chaos("fault { task: 'ps/0' kind: STOP lasts_s { min: 100 } }", {"--json"}), 1);
  EXPECT_THAT(cli_.err(), HasSubstr("tiny-1 failed: ps/1 has lost its slice"));
  EXPECT_THAT(cli_.out(), HasSubstr(R"("state":"FAILED","reason":"ps/1 has lost its slice",)"
                                    R"("error":"tiny-1 failed: ps/1 has)"));
  EXPECT_THAT(cli_.signals.sent, ElementsAre("STOP ps/0 11", "CONT ps/0 11"));
  end_ = CANCELLED;
  job_ = Description(RUNNING);
  ends_at_ = cli_.clock.Now() + absl::Seconds(1);
  EXPECT_EQ(Chaos("fault { task: 'ps/0' kind: KILL times: 3 }"), 1);
}

TEST_F(ChaosCommandTest, AWrongPlanIsRefusedBeforeAnything) {
  EXPECT_EQ(Run({"chaos"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--plan=FILE is missing"));
  EXPECT_EQ(Run({"chaos", "--plan=/no/such/plan"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("/no/such/plan"));
  EXPECT_EQ(Chaos("fault { tusk: 'ps/0' kind: KILL }"), 2);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("plan.textproto:1:9: error: fault[0].tusk"),
                                HasSubstr("did you mean \"task\"?")));
  EXPECT_THAT(cli_.coordinator.calls, IsEmpty());
  EXPECT_EQ(Chaos("fault { task: 'ps/7' kind: KILL }"), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("plan.textproto: fault[0].task: \"ps/7\": the cluster has no "
                                    "such task; it has coordinator/0, ps/0, ps/1, worker/0\n"));
  EXPECT_EQ(Chaos(kTwoFaults, {"--job"}), 2);
  EXPECT_EQ(Run({"chaos", "--pln=x"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("did you mean \"--plan\"?"));
  job_ = Description(SUCCEEDED);
  EXPECT_EQ(Chaos(kTwoFaults), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("tiny-1 has ended (SUCCEEDED)"));
  cli_.coordinator.describe = [] { return absl::NotFoundError("there is no job yet"); };
  EXPECT_EQ(Chaos(kTwoFaults), 2);
  EXPECT_THAT(cli_.signals.sent, IsEmpty());
  EXPECT_EQ(cli_.out(), "");
}

TEST_F(ChaosCommandTest, ValidateTakesAPlan) {
  EXPECT_EQ(Run({"validate", Plan(kTwoFaults)}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("plan.textproto: ok (chaos)"));
  EXPECT_EQ(Run({"validate", Plan("fault { task: 'ps' kind: KILL }")}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("\"ps\" does not say which; write ps/0, or ps/* for any"));
}

TEST_F(ChaosCommandTest, AProcessThatIsNotTheTaskIsNamed) {
  cli_.signals.open["worker/0"] =
      absl::FailedPreconditionError("worker/0 (pid 13) is not signalled: it is `sh`");
  // Before the first fault, though the worker's comes late.
  EXPECT_EQ(Chaos("fault { task: 'ps/0' kind: KILL }"
                  " fault { task: 'worker/0' kind: KILL from_s: 100 }"),
            2);
  EXPECT_THAT(cli_.err(), HasSubstr("worker/0 (pid 13) is not signalled: it is `sh`"));
  EXPECT_THAT(cli_.signals.sent, IsEmpty());
  // One that becomes another one later ends the run.
  cli_.signals.open.clear();
  const auto info = cli_.coordinator.info;
  cli_.coordinator.info = [&, info] {
    if (cli_.clock.Now() > absl::Seconds(5)) {
      cli_.signals.open["worker/0"] = absl::FailedPreconditionError("worker/0 is another one");
    }
    return info();
  };
  EXPECT_EQ(Chaos("fault { task: 'ps/0' kind: STOP lasts_s { min: 100 } }"
                  " fault { task: 'worker/0' kind: KILL from_s: 10 }"),
            2);
  EXPECT_THAT(cli_.err(), HasSubstr("worker/0 is another one"));
  EXPECT_THAT(cli_.out(), HasSubstr("1 of 2 done: 1 STOP"));
  EXPECT_THAT(cli_.signals.sent, ElementsAre("STOP ps/0 11", "CONT ps/0 11"));
}

TEST_F(ChaosCommandTest, AProcessThatIsGoneIsTriedAgain) {
  cli_.signals.open["ps/0"] = absl::NotFoundError("ps/0 (pid 11) is not there");
  const auto info = cli_.coordinator.info;
  cli_.coordinator.info = [&, info] {
    if (cli_.clock.Now() > absl::Seconds(3)) {
      cli_.signals.open.clear();
      pids_["ps/0"] = 55;
    }
    return info();
  };
  EXPECT_EQ(Chaos("seconds: 50 fault { task: 'ps/0' kind: STOP lasts_s { min: 1 } }"), 0);
  EXPECT_THAT(cli_.signals.sent, ElementsAre("STOP ps/0 55", "CONT ps/0 55"));
}

TEST_F(ChaosCommandTest, AClusterThatIsNotThereIsUnreachable) {
  cli_.coordinator.down = kDown;
  EXPECT_EQ(Chaos(kTwoFaults), 3);
  EXPECT_THAT(cli_.err(), HasSubstr("coordinator at unix:c not reached"));
  EXPECT_THAT(cli_.signals.sent, IsEmpty());
}

TEST_F(ChaosCommandTest, AsksOnForAWhileWhileTheCoordinatorIsAway) {
  const std::string stop = "seconds: 100 fault { task: 'ps/0' kind: STOP lasts_s { min: 30 } }";
  const auto info = cli_.coordinator.info;
  cli_.coordinator.info = [&, info] {
    away_until_ = cli_.clock.Now() > absl::Seconds(2) ? absl::Seconds(20) : away_until_;
    return info();
  };
  EXPECT_EQ(Chaos(stop), 0);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("not reached; asking again for 59 s"),
                                HasSubstr("it answers again")));
  cli_.signals.sent.clear();
  const absl::Duration start = cli_.clock.Now();
  cli_.coordinator.info = [&, info] {
    away_until_ = cli_.clock.Now() > start + absl::Seconds(2) ? absl::InfiniteDuration() : start;
    return info();
  };
  EXPECT_EQ(Chaos(stop, {"--patience=9"}), 3);
  EXPECT_LT(cli_.clock.Now(), start + absl::Seconds(12));
  EXPECT_THAT(cli_.err(), HasSubstr("coordinator at unix:c not reached\n"));
  // What is known is reported, and nothing stays stopped.
  EXPECT_THAT(cli_.out(), HasSubstr("1 of 1 done: 1 STOP"));
  EXPECT_THAT(cli_.signals.sent, ElementsAre("STOP ps/0 11", "CONT ps/0 11"));
}

TEST_F(ChaosCommandTest, TheCoordinatorItselfIsKilled) {
  back_after_ = absl::Seconds(50);
  EXPECT_EQ(
      Chaos("seconds: 200 fault { task: 'coordinator/0' kind: KILL times: 2 }", {"--patience=5"}),
      0);
  EXPECT_THAT(cli_.signals.sent, ElementsAre("KILL coordinator/0 10", "KILL coordinator/0 110"));
  EXPECT_THAT(cli_.err(), Not(HasSubstr("asking again")));
  back_after_ = absl::Seconds(70);
  EXPECT_EQ(Chaos("fault { task: 'coordinator/0' kind: KILL }", {"--patience=5"}), 4);
  EXPECT_THAT(cli_.err(), HasSubstr("coordinator/0 (pid 210) is not back 60."));
}

// While it is away, others are hit by what it said last; the guard sees to it that they are
// who they were.
TEST_F(ChaosCommandTest, OthersAreHitWhileTheCoordinatorIsAway) {
  back_after_ = absl::Seconds(30);
  cli_.signals.open["worker/0"] = absl::NotFoundError("worker/0 is not there");
  const auto on_signal = cli_.signals.on_signal;
  cli_.signals.on_signal = [&](const std::string& signal, const TaskView& task) {
    on_signal(signal, task);
    cli_.signals.open["worker/0"] = absl::FailedPreconditionError("pid 13 is another process");
  };
  const auto info = cli_.coordinator.info;
  cli_.coordinator.info = [&, info] {
    if (cli_.clock.Now() >= absl::Seconds(30)) {
      cli_.signals.open.clear();
    }
    return info();
  };
  EXPECT_EQ(Chaos("seconds: 200 fault { task: 'coordinator/0' kind: KILL }"
                  " fault { task: 'ps/0' kind: STOP from_s: 5 lasts_s { min: 3 } }"
                  " fault { task: 'worker/0' kind: STOP from_s: 6 lasts_s { min: 1 } }"),
            0);
  EXPECT_THAT(cli_.signals.sent,
              ElementsAre("KILL coordinator/0 10", "STOP ps/0 11", "CONT ps/0 11",
                          "STOP worker/0 13", "CONT worker/0 13"));
  EXPECT_THAT(cli_.out(), HasSubstr("     5.0  ps/0                 11  STOP           3.0"));
}

TEST_F(ChaosCommandTest, ATaskThatDoesNotComeBackIsNamed) {
  back_after_ = absl::Hours(1);
  EXPECT_EQ(Chaos("back_within_s: 7 fault { task: 'ps/0' kind: KILL }"
                  " fault { task: 'ps/1' kind: STOP lasts_s { min: 60 } }",
                  {"--json"}),
            4);
  EXPECT_THAT(cli_.err(), HasSubstr("ps/0 (pid 11) is not back 7.0 s after its KILL at 0.0 s"));
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr(R"("error":"ps/0 (pid 11) is not back)"),
                                HasSubstr(R"("back_after_s":null)")));
  EXPECT_THAT(cli_.signals.sent, ElementsAre("KILL ps/0 11", "STOP ps/1 12", "CONT ps/1 12"));
}

TEST_F(ChaosCommandTest, AJobThatIsGoneHasFailed) {
  cli_.coordinator.describe = [this]() -> absl::StatusOr<JobDescription> {
    return cli_.clock.Now() > absl::Seconds(3)
               ? absl::StatusOr<JobDescription>(absl::NotFoundError("no job \"tiny-1\""))
               : Describe();
  };
  EXPECT_EQ(Chaos("fault { task: 'coordinator/0' kind: KILL }"), 1);
  EXPECT_THAT(cli_.err(), HasSubstr("tiny-1 is gone: no job \"tiny-1\""));
}

TEST_F(ChaosCommandTest, CtrlCLetsAllGoOn) {
  cli_.signal_after = absl::Seconds(3);
  EXPECT_EQ(Chaos("fault { task: 'ps/0' kind: STOP lasts_s { min: 60 } }"
                  " fault { task: 'worker/0' kind: SLOW lasts_s { min: 60 } share: 0.9 }"),
            130);
  EXPECT_THAT(cli_.err(), HasSubstr("interrupted; whatever it had stopped goes on"));
  EXPECT_THAT(cli_.out(), HasSubstr("2 of 2 done: 1 STOP, 1 SLOW"));
  std::map<std::string, std::string> last;
  for (const std::string& sent : cli_.signals.sent) {
    last[sent.substr(5)] = sent.substr(0, 4);
  }
  EXPECT_THAT(last, ElementsAre(std::pair("ps/0 11", "CONT"), std::pair("worker/0 13", "CONT")));
  cli_.signal = SIGTERM;
  EXPECT_EQ(Chaos(kTwoFaults), 143);
}

TEST_F(ChaosCommandTest, ARealProcessIsStoppedAndGoesOnWhenTheRunIsCut) {
  FakeTasks tasks;
  const Subprocess ps = tasks.Start({"ps_server", "--task=0"});
  pids_["ps/0"] = static_cast<uint32_t>(ps.pid());
  cli_.environment().task_processes = &MakeTaskProcesses;
  const auto wait = cli_.environment().wait;
  bool stopped = false;
  cli_.environment().wait = [&](absl::Duration timeout) -> std::optional<int> {
    wait(timeout);
    if (!absl::StrContains(cli_.err(), "STOP ps/0")) {
      return std::nullopt;
    }
    stopped = AwaitChange(ps, WSTOPPED);
    return SIGINT;
  };
  EXPECT_EQ(Chaos("fault { task: 'ps/0' kind: STOP lasts_s { min: 60 } }"), 130);
  EXPECT_TRUE(stopped);
  EXPECT_TRUE(AwaitChange(ps, WCONTINUED));
  EXPECT_THAT(cli_.out(), HasSubstr("1 of 1 done: 1 STOP"));
}

}  // namespace
}  // namespace monsoon
