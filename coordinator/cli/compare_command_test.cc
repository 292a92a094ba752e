// `coordinator compare` against a fake cluster whose jobs end as the test says.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "coordinator/cli/cli_fixture.h"
#include "gmock/gmock.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class CompareCommandTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    cli_.coordinator.describe = [this] { return Described(); };
    cli_.coordinator.info = [this] { return Info(); };
  }

  // The job that was submitted last: looks at it bring it on by a quarter.
  virtual absl::StatusOr<JobDescription> Described() {
    const Job& job = cli_.coordinator.submitted.back().job();
    uint32_t& looks = looks_[job.name()];
    JobDescription described;
    described.mutable_summary()->set_job(job.name() + "-1");
    const bool ended = ++looks > 4;
    const bool fails = job.name().find(failing_) != std::string::npos;
    const bool cancelled =
        std::ranges::count(cli_.coordinator.calls, "Cancel " + described.summary().job()) > 0;
    described.mutable_summary()->set_state(cancelled ? CANCELLED
                                           : !ended  ? RUNNING
                                           : fails   ? FAILED
                                                     : SUCCEEDED);
    described.mutable_summary()->set_reason(ended && fails ? "diverged: loss is nan" : "");
    described.mutable_summary()->set_percent(ended ? 100 : 25 * looks);
    described.mutable_summary()->set_elapsed_s(looks);
    described.mutable_progress()->set_loss(1.0 / looks);
    described.mutable_progress()->set_epoch(2);
    described.mutable_data()->set_examples(64);
    described.mutable_progress()->set_examples(128 + (deaths_ > 0 ? 8 : 0));
    if (ended && !fails && job.has_test()) {
      const double rate = job.downpour().optimizer().sgd().rate();
      described.set_final_test_accuracy(rate == 0.3 ? 0.95 : 0.9);
      described.set_final_loss(0.25);
      auto* const test = described.add_evaluation();
      test->set_test_accuracy(described.final_test_accuracy());
      test->set_elapsed_s(4);
      test->set_epoch(2);
    }
    return described;
  }

  InfoReply Info() {
    InfoReply info;
    TaskStatus* const task = info.add_task();
    task->set_task("worker/0");
    task->set_address("unix:cli-test-w");
    task->set_state(state_);
    // A second life, some time after each death.
    info.set_pid(1);
    task->set_pid(back_ ? 100 + deaths_ : 100);
    return info;
  }

  // `up` runs, and what is killed comes back.
  void AllowDeaths() {
    cli_.variables["MONSOON_STATE_DIR"] = "/state";
    cli_.locked = {"/state/coordinator/up"};
    cli_.signals.on_signal = [this](const std::string&, const TaskView&) { ++deaths_; };
  }

  int Compare(std::vector<std::string> more) {
    more.insert(more.begin(), {"compare", job_});
    return Run(std::move(more));
  }

  std::vector<std::string> Submitted() const {
    std::vector<std::string> names;
    for (const SubmitRequest& request : cli_.coordinator.submitted) {
      names.push_back(request.job().name());
    }
    return names;
  }

  std::map<std::string, uint32_t> looks_;
  std::string failing_ = "none";
  std::string state_ = "UP";
  uint32_t deaths_ = 0;
  bool back_ = true;
};

TEST_F(CompareCommandTest, RunsEachModeWithEachSeedAndDeletesTheJobs) {
  EXPECT_EQ(Compare({"--modes=single,local:5", "--seeds=2", "--to=0.9"}), 0) << cli_.err();
  EXPECT_THAT(Submitted(), ElementsAre("tiny-compare-single-s0", "tiny-compare-single-s1",
                                       "tiny-compare-local-5-s0", "tiny-compare-local-5-s1"));
  EXPECT_EQ(cli_.coordinator.submitted[1].job().seed(), 1);
  EXPECT_EQ(cli_.coordinator.submitted[1].job().downpour().workers(), 1);
  EXPECT_EQ(cli_.coordinator.submitted[2].job().downpour().local().steps(), 5);
  EXPECT_THAT(cli_.coordinator.calls, Contains("Delete tiny-compare-single-s0-1"));
  EXPECT_THAT(cli_.out(), HasSubstr("single   0         0.9000  0.2500      5.0       4.0"));
  EXPECT_THAT(cli_.out(), HasSubstr("local:5  median"));
  EXPECT_THAT(cli_.err(), HasSubstr("run 4 of 4: tiny-compare-local-5-s1\n"));
}

TEST_F(CompareCommandTest, KeepsThemIfAskedTo) {
  EXPECT_EQ(Compare({"--modes=single", "--seeds=1", "--keep", "--json"}), 0) << cli_.err();
  EXPECT_THAT(cli_.coordinator.calls, Not(Contains(StartsWith("Delete"))));
  EXPECT_THAT(cli_.out(), StartsWith("{\"schema_version\":1,\"name\":\"tiny\",\"complete\":true"));
}

TEST_F(CompareCommandTest, WritesBothFiles) {
  const std::string out = folder_ + "/new/folder";
  EXPECT_EQ(Compare({"--modes=single", "--seeds=1", "--json", "--out=" + out}), 0) << cli_.err();
  EXPECT_EQ(ReadFile(out + "/compare.json"), cli_.out());
  EXPECT_THAT(ReadFile(out + "/compare.svg"), HasSubstr("tiny: test accuracy"));
}

TEST_F(CompareCommandTest, AFolderThatCannotBeMadeIsToldBeforeAnythingRuns) {
  EXPECT_EQ(Compare({"--modes=single", "--out=" + job_ + "/below"}), 5);
  EXPECT_THAT(cli_.err(), HasSubstr("--out: "));
  EXPECT_THAT(Submitted(), IsEmpty());
}

TEST_F(CompareCommandTest, RefusesBeforeAnythingRuns) {
  EXPECT_EQ(Compare({"--modes=local:0,damped"}), 2);
  EXPECT_THAT(cli_.err(),
              AllOf(HasSubstr("coordinator compare: --modes: \"local:0\": H is a whole"),
                    HasSubstr("\ncoordinator compare: --modes: \"damped\": its P")));
  EXPECT_EQ(Compare({}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--modes is missing"));
  EXPECT_THAT(cli_.coordinator.calls, IsEmpty());
}

TEST_F(CompareCommandTest, WithoutACoordinatorItIsUnreachable) {
  cli_.coordinator.down = kDown;
  EXPECT_EQ(Compare({"--modes=single"}), 3);
  EXPECT_THAT(cli_.err(), HasSubstr("not reached; is the cluster up?"));
}

TEST_F(CompareCommandTest, ACoordinatorThatUpStartsAgainIsWaitedFor) {
  AllowDeaths();
  cli_.coordinator.down = kDown;
  EXPECT_EQ(Compare({"--modes=single", "--patience=7"}), 3);
  EXPECT_GE(cli_.waited, absl::Seconds(6));
  EXPECT_THAT(Submitted(), IsEmpty());
}

TEST_F(CompareCommandTest, AJobThatFailsIsAResult) {
  failing_ = "single";
  EXPECT_EQ(Compare({"--modes=single,downpour", "--seeds=1"}), 1);
  EXPECT_EQ(Submitted().size(), 2);
  EXPECT_THAT(cli_.out(),
              HasSubstr("single: tiny-compare-single-s0-1 is FAILED: diverged: loss is nan"));
}

TEST_F(CompareCommandTest, ACoordinatorThatIsAwayIsWaitedFor) {
  uint32_t asked = 0;
  cli_.coordinator.describe = [&]() -> absl::StatusOr<JobDescription> {
    return ++asked < 20 ? kDown : Described();
  };
  EXPECT_EQ(Compare({"--modes=single", "--seeds=1"}), 0) << cli_.err();
  EXPECT_GT(asked, 20);
  cli_.coordinator.describe = [&]() -> absl::StatusOr<JobDescription> { return kDown; };
  EXPECT_EQ(Compare({"--modes=single", "--seeds=1", "--patience=5"}), 3);
  EXPECT_THAT(cli_.err(), HasSubstr("tiny-compare-single-s0-1 may go on"));
  EXPECT_THAT(cli_.out(), HasSubstr("not all runs were made"));
}

TEST_F(CompareCommandTest, AJobThatTheCoordinatorForgotIsLost) {
  cli_.coordinator.describe = []() -> absl::StatusOr<JobDescription> {
    return absl::NotFoundError("no job");
  };
  EXPECT_EQ(Compare({"--modes=single", "--seeds=1"}), 1);
  EXPECT_THAT(cli_.out(), HasSubstr("is LOST: the coordinator does not know it any more"));
}

TEST_F(CompareCommandTest, DataThatAreWrongEndAll) {
  DataFinding* const wrong = cli_.coordinator.data_found.add_data_error();
  wrong->set_field("train.npy");
  wrong->set_message("no such file");
  EXPECT_EQ(Compare({"--modes=single,downpour"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("train.npy: no such file"));
  EXPECT_EQ(Submitted().size(), 1);
}

TEST_F(CompareCommandTest, CtrlCCancelsTheJobAndWritesWhatThereIs) {
  cli_.signal_after = absl::Milliseconds(700);  // in the second run
  const std::string out = folder_ + "/cut";
  EXPECT_EQ(Compare({"--modes=single,downpour", "--seeds=1", "--out=" + out}), 130);
  EXPECT_THAT(cli_.coordinator.calls, Contains("Cancel tiny-compare-downpour-s0-1"));
  EXPECT_THAT(cli_.coordinator.calls, Not(Contains("Cancel tiny-compare-single-s0-1")));
  EXPECT_THAT(cli_.out(),
              AllOf(HasSubstr("single    0       0.9000"), HasSubstr("not all runs were made")));
  EXPECT_THAT(ReadFile(out + "/compare.json"), HasSubstr("\"complete\":false"));
}

TEST_F(CompareCommandTest, TheBestRateIsTaken) {
  EXPECT_EQ(Compare({"--modes=downpour,sandblaster", "--seeds=1", "--rates=0.1,0.3,0.2"}), 0)
      << cli_.err();
  EXPECT_THAT(Submitted(), ElementsAre("tiny-compare-downpour-rate1", "tiny-compare-downpour-rate2",
                                       "tiny-compare-downpour-rate3", "tiny-compare-downpour-s0",
                                       "tiny-compare-sandblaster-s0"));
  EXPECT_EQ(cli_.coordinator.submitted[0].job().stop().epochs(), 1);
  EXPECT_EQ(cli_.coordinator.submitted[3].job().stop().epochs(), 2);
  EXPECT_EQ(cli_.coordinator.submitted[3].job().downpour().optimizer().sgd().rate(), 0.3);
  EXPECT_THAT(cli_.out(), HasSubstr("downpour: rate 0.3, the best of 0.1, 0.3, 0.2 after 1 epochs "
                                    "of seed 0"));
  EXPECT_THAT(cli_.out(), HasSubstr("sandblaster: --rates mean nothing in batch"));
}

TEST_F(CompareCommandTest, WithoutARateThatTrainsTheModeIsLeftOut) {
  failing_ = "rate";
  EXPECT_EQ(Compare({"--modes=downpour,single", "--seeds=1", "--rates=0.1"}), 1);
  EXPECT_THAT(Submitted(), ElementsAre("tiny-compare-downpour-rate1", "tiny-compare-single-rate1"));
  EXPECT_THAT(cli_.out(), HasSubstr("single: no rate of 0.1 has come to a result"));
}

TEST_F(CompareCommandTest, ATaskIsKilledWhenItsShareIsDone) {
  AllowDeaths();
  EXPECT_EQ(Compare({"--modes=downpour", "--seeds=1", "--kill=worker/0@0.5", "--json"}), 0)
      << cli_.err();
  EXPECT_THAT(Submitted(),
              ElementsAre("tiny-compare-downpour-s0", "tiny-compare-downpour-s0-killed"));
  EXPECT_THAT(cli_.signals.sent, ElementsAre("KILL worker/0 100"));
  EXPECT_THAT(cli_.err(), HasSubstr("KILL worker/0 (pid 100) at 2.0 s of "
                                    "tiny-compare-downpour-s0-killed-1"));
  EXPECT_THAT(cli_.out(), HasSubstr("\"death_examples_again\":8,\"death_extra_s\":0,"
                                    "\"death_back_after_s\":0.1"));
}

TEST_F(CompareCommandTest, DeathsAreNoRowOfDeaths) {
  AllowDeaths();
  EXPECT_EQ(Compare({"--modes=downpour", "--seeds=2", "--kill=worker/0@0.5"}), 0) << cli_.err();
  EXPECT_THAT(cli_.signals.sent, ElementsAre("KILL worker/0 100", "KILL worker/0 101"));
  EXPECT_GE(cli_.waited, absl::Seconds(11));
  EXPECT_THAT(cli_.err(), HasSubstr("so that `up` starts worker/0 again as soon as before"));
}

TEST_F(CompareCommandTest, WhatIsNotBackEndsAll) {
  AllowDeaths();
  back_ = false;
  EXPECT_EQ(Compare({"--modes=downpour", "--kill=worker/0@0.5"}), 4);
  EXPECT_THAT(cli_.err(), HasSubstr("worker/0 was killed and is not back after 1m"));
  EXPECT_EQ(Submitted().size(), 2);
}

TEST_F(CompareCommandTest, NobodyIsKilledWhoIsNotThatTask) {
  AllowDeaths();
  cli_.signals.open["worker/0"] = absl::FailedPreconditionError("worker/0: pid 100 is sshd");
  EXPECT_EQ(Compare({"--modes=downpour", "--kill=worker/0@0.5"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--kill: worker/0: pid 100 is sshd"));
  EXPECT_EQ(Compare({"--modes=downpour", "--kill=ps/0@0.5"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--kill: the cluster has no task ps/0"));
  state_ = "LOST";
  EXPECT_EQ(Compare({"--modes=downpour", "--kill=worker/0@0.5"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--kill: worker/0 is LOST; `coordinator tasks` has to"));
  EXPECT_EQ(cli_.waited, absl::Seconds(10));
  cli_.locked.clear();
  EXPECT_EQ(Compare({"--modes=downpour", "--kill=worker/0@0.5"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--kill: no `up` that keeps this cluster's state runs"));
  EXPECT_THAT(Submitted(), IsEmpty());
  EXPECT_THAT(cli_.signals.sent, IsEmpty());
}

}  // namespace
}  // namespace monsoon
