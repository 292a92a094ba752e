// Real processes: what happens when one is killed, stopped or terminated.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/process/subprocess.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "coordinator/client/job_client.h"
#include "ps_server/client/shard_control.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon {
namespace {

using testing::PollUntil;
using testing::SyntheticJob;
using testing::UniqueName;

constexpr absl::Duration kLong = absl::Seconds(60);
// A worker whose shards and coordinator are gone gives its last push up after 15 s.
constexpr absl::Duration kEnd = absl::Seconds(25);

class ProcessTest : public ::testing::Test {
 protected:
  // Forks before this process has a second thread. Each worker gets the fault
  // of its number; "" and where there is none: no fault.
  void Launch(int workers, uint32_t heartbeat_ms, uint32_t lost_after_ms,
              const std::vector<std::string>& faults = {}) {
    const std::string name = UniqueName();
    prefix_ = testing::UniqueSocketAddress() + "-";
    std::string text = absl::StrCat(
        "name: \"", name, "\" heartbeat_ms: ", heartbeat_ms, " lost_after_ms: ", lost_after_ms,
        "\ncoordinator { address: \"", prefix_, "coordinator\" }\nps { address: \"", prefix_,
        "ps0\" }\n", open_ ? "open: true\n" : "");
    for (int i = 0; i < workers; ++i) {
      absl::StrAppend(&text, "worker { address: \"", prefix_, "worker", i, "\" device: CPU }\n");
    }
    path_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name, ".textproto");
    std::FILE* file = std::fopen(path_.c_str(), "w");
    ASSERT_NE(file, nullptr);
    std::fputs(text.c_str(), file);
    std::fclose(file);
    // Workers first: any order must do.
    for (int i = 0; i < workers; ++i) {
      const std::string fault = i < std::ssize(faults) ? faults[i] : "";
      Start(absl::StrCat("worker/", i),
            {"worker/worker", absl::StrCat("--task=", i), "--fault=" + fault});
    }
    Start("ps/0", {"ps_server/ps_server", "--task=0"});
    Start("coordinator/0", {"coordinator/coordinator", "serve"});
    client_ = JobClient::Create(prefix_ + "coordinator", absl::Seconds(5));
    ASSERT_TRUE(PollUntil(kLong, [&] { return client_->Info().ok(); }));
  }

  // All that still live end on SIGTERM with 0, in bounded time.
  void TearDown() override {
    for (auto& [task, process] : processes_) process.Signal(SIGTERM);
    for (auto& [task, process] : processes_) {
      EXPECT_TRUE(PollUntil(kEnd, [&] { return process.TryWait().has_value(); }))
          << task << " (pid " << process.pid() << ") does not end";
      if (!killed_.contains(task) && process.TryWait().has_value()) {
        EXPECT_TRUE(process.TryWait()->ok()) << task << " " << process.TryWait()->Describe();
      }
    }
  }

  void Signal(const std::string& task, int signal) {
    if (signal == SIGKILL) killed_[task] = true;
    processes_.at(task).Signal(signal);
  }
  ProcessEnd AwaitExit(const std::string& task) {
    Subprocess& process = processes_.at(task);
    EXPECT_TRUE(PollUntil(absl::Seconds(15), [&] { return process.TryWait().has_value(); }));
    return process.TryWait().value_or(ProcessEnd{.code = -1});
  }

  // After it was killed and has ended.
  void Restart(const std::string& task, const std::vector<std::string>& argv) {
    processes_.erase(task);
    killed_.erase(task);
    Start(task, argv);
  }

  std::string Submit(const Job& job) {
    SubmitRequest request;
    *request.mutable_job() = job;
    auto reply = client_->Submit(request);
    EXPECT_OK(reply.status());
    return reply.ok() ? reply->job() : "";
  }
  JobDescription Describe(const std::string& job) {
    auto description = client_->Describe(job);
    EXPECT_OK(description.status());
    return description.ok() ? *description : JobDescription();
  }
  template <typename Predicate>
  JobDescription Await(const std::string& job, Predicate done, absl::Duration timeout = kLong) {
    JobDescription description;
    EXPECT_TRUE(PollUntil(timeout, [&] {
      description = Describe(job);
      return done(description);
    })) << description.ShortDebugString();
    return description;
  }

  static uint64_t Steps(const JobDescription& description, uint32_t task) {
    for (const auto& worker : description.worker()) {
      if (worker.task() == task) return worker.steps();
    }
    return 0;
  }
  static bool Ended(const JobDescription& description) {
    return description.summary().state() >= SUCCEEDED;
  }
  static bool HasEvent(const JobDescription& description, const std::string& kind,
                       const std::string& task) {
    for (const auto& event : description.event()) {
      if (event.kind() == kind && event.task() == task) return true;
    }
    return false;
  }
  // 2500 steps an epoch: no epoch is so short that a stopped worker's blocks
  // hold the others up.
  static Job EndlessJob() {
    Job job = SyntheticJob(40000, 0);
    job.mutable_stop()->clear_epochs();
    job.mutable_stop()->set_seconds(300);
    return job;
  }

  void Start(const std::string& task, std::vector<std::string> argv) {
    argv[0] = absl::StrCat("./", argv[0]);
    argv.push_back("--cluster=" + path_);
    auto process = Subprocess::Start(argv, {.pipe_stdout = false, .pipe_stderr = false});
    ASSERT_OK(process.status());
    processes_.emplace(task, *std::move(process));
  }

  bool open_ = false;  // workers that the cluster file does not list may join
  std::map<std::string, Subprocess> processes_;
  std::map<std::string, bool> killed_;
  std::unique_ptr<JobClient> client_;
  std::string prefix_;  // of all addresses

 private:
  std::string path_;  // the cluster file
};

TEST_F(ProcessTest, AKilledWorkerStopsNothingAndEveryBlockIsVisited) {
  ASSERT_NO_FATAL_FAILURE(Launch(3, 100, 1000));
  const Job job = SyntheticJob(8000, 10);  // 125 blocks an epoch
  const std::string id = Submit(job);
  Await(id, [](const auto& d) { return Steps(d, 1) > 50; });
  Signal("worker/1", SIGKILL);
  const JobDescription end = Await(id, Ended);
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_TRUE(HasEvent(end, "worker_lost", "worker/1"));
  EXPECT_EQ(end.data().blocks_done(), 1250u);
  EXPECT_GE(end.data().blocks_released(), 1u);
}

TEST_F(ProcessTest, ATerminatedWorkerDrainsAndExitsWithZero) {
  ASSERT_NO_FATAL_FAILURE(Launch(2, 100, 3000));
  const std::string id = Submit(SyntheticJob(8000, 10));
  Await(id, [](const auto& d) { return Steps(d, 1) > 50; });
  Signal("worker/1", SIGTERM);
  EXPECT_TRUE(AwaitExit("worker/1").ok());
  const JobDescription end = Await(id, Ended);
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_TRUE(HasEvent(end, "worker_left", "worker/1"));
  // Nothing that was counted is missing on the shard.
  EXPECT_EQ(end.shard(0).version_min(), end.counts().pushes());
}

TEST_F(ProcessTest, GuestsJoinDieAndLeaveLikeWorkers) {
  open_ = true;
  ASSERT_NO_FATAL_FAILURE(Launch(1, 100, 1000));
  const std::string id = Submit(EndlessJob());
  Await(id, [](const auto& d) { return Steps(d, 0) > 50; });
  const auto start = [this](const std::string& name) { Start(name, {"worker/worker"}); };
  start("first guest");
  Await(id, [](const auto& d) { return Steps(d, 1) > 50; });
  start("second guest");
  Await(id, [](const auto& d) { return Steps(d, 2) > 50; });
  Signal("first guest", SIGKILL);
  Await(id, [](const auto& d) { return HasEvent(d, "worker_lost", "worker/1"); });
  start("third guest");  // gets the number that is free
  Await(id, [](const auto& d) { return HasEvent(d, "worker_rejoined", "worker/1"); });
  EXPECT_OK(client_->Drain(2).status());
  EXPECT_TRUE(AwaitExit("second guest").ok());
  const JobDescription now = Await(
      id, [steps = Steps(Describe(id), 1)](const auto& d) { return Steps(d, 1) > steps + 50; });
  EXPECT_TRUE(HasEvent(now, "worker_left", "worker/2"));
  EXPECT_EQ(now.summary().state(), RUNNING) << now.summary().reason();
}

TEST_F(ProcessTest, AWorkerWithoutATaskIsRefusedWhereTheClusterIsNotOpen) {
  ASSERT_NO_FATAL_FAILURE(Launch(1, 100, 1000));
  Start("guest", {"worker/worker"});
  EXPECT_EQ(AwaitExit("guest").code, 2);
  killed_["guest"] = true;
}

// The others' steps consist of waiting: 20 ms for a fetch and 20 ms for a push,
// strictly in turn. So it is not the processor time which the stopped worker
// leaves to them that keeps their rate up, and a busy machine hardly matters.
// The third, which gets stopped, is nearly always in the middle of an exchange
// with the shard. Windows with it and without it alternate, so that a load from
// outside meets both.
TEST_F(ProcessTest, AStoppedWorkerDoesNotSlowTheOthersAndRejoins) {
  constexpr int kPairs = 5;
  constexpr absl::Duration kWindow = absl::Seconds(2);
  ASSERT_NO_FATAL_FAILURE(Launch(3, 50, 5000, {"delay_ms=20", "delay_ms=20", "delay_ms=1"}));
  // Far more than is visited: no epoch ends, whose last blocks the stopped
  // worker could hold.
  Job job = EndlessJob();
  job.mutable_train()->mutable_synthetic()->set_examples(4'000'000);
  job.mutable_downpour()->set_overlap(NONE);
  const std::string id = Submit(job);
  Await(id, [](const auto& d) { return Steps(d, 0) > 20 && Steps(d, 1) > 20 && Steps(d, 2) > 20; });
  // Steps a second of each of the two others, over a window.
  const auto rate = [&] {
    const absl::Duration begin = Clock::Real()->Now();
    const JobDescription first = Describe(id);
    PollUntil(kWindow, [] { return false; });
    const JobDescription last = Describe(id);
    const uint64_t steps = Steps(last, 0) + Steps(last, 1) - Steps(first, 0) - Steps(first, 1);
    return static_cast<double>(steps) / 2 / absl::ToDoubleSeconds(Clock::Real()->Now() - begin);
  };
  const auto median = [](std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
  };
  std::vector<double> with_it, silent, without_it, ratios;
  for (int i = 0; i < kPairs; ++i) {
    with_it.push_back(rate());
    Signal("worker/2", SIGSTOP);
    silent.push_back(rate());
    ratios.push_back(silent.back() / with_it.back());
    Signal("worker/2", SIGCONT);
  }
  EXPECT_FALSE(HasEvent(Describe(id), "worker_lost", "worker/2"));
  Signal("worker/2", SIGSTOP);
  const JobDescription lost =
      Await(id, [](const auto& d) { return HasEvent(d, "worker_lost", "worker/2"); });
  for (int i = 0; i < 3; ++i) without_it.push_back(rate());
  std::printf(
      "steps/s of each other: %.1f with it, %.1f while it is silent (median ratio %.3f, lowest "
      "%.3f), %.1f after its loss\n",
      median(with_it), median(silent), median(ratios),
      *std::min_element(ratios.begin(), ratios.end()), median(without_it));
  // Two delays a step: else something other than the exchange is measured.
  EXPECT_LT(median(with_it), 25);
  EXPECT_GT(median(with_it), 10);
  EXPECT_GE(median(ratios), 0.95);
  EXPECT_GE(median(without_it), 0.95 * median(with_it));

  Signal("worker/2", SIGCONT);
  const uint64_t stopped_at = Steps(lost, 2);
  const JobDescription back =
      Await(id, [&](const auto& d) { return Steps(d, 2) > stopped_at + 50; });
  EXPECT_TRUE(HasEvent(back, "worker_rejoined", "worker/2") ||
              HasEvent(back, "worker_joined", "worker/2"));
  ASSERT_OK(client_->Cancel(id).status());
  Await(id, Ended);
}

TEST_F(ProcessTest, AKilledParameterServerFailsTheJobByNameWithinFiveSeconds) {
  ASSERT_NO_FATAL_FAILURE(Launch(2, 500, 3000));
  const std::string id = Submit(EndlessJob());
  Await(id, [](const auto& d) { return Steps(d, 0) > 50 && Steps(d, 1) > 50; });
  const absl::Duration killed = Clock::Real()->Now();
  Signal("ps/0", SIGKILL);
  const JobDescription end = Await(id, Ended);
  EXPECT_LE(Clock::Real()->Now() - killed, absl::Seconds(5));
  EXPECT_EQ(end.summary().state(), FAILED);
  EXPECT_THAT(end.summary().reason(), ::testing::HasSubstr("ps/0"));
}

// A shard that is stopped may have pushes of the killed worker in its socket, and serves
// them when it wakes: until it has closed that session, nobody repeats its blocks.
TEST_F(ProcessTest, AStoppedParameterServerIsWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(Launch(2, 100, 500));
  const std::string id = Submit(EndlessJob());
  Await(id, [](const auto& d) { return Steps(d, 0) > 50 && Steps(d, 1) > 50; });
  Signal("ps/0", SIGSTOP);
  Await(id, [](const auto& d) { return HasEvent(d, "shard_silent", "ps/0"); });
  Signal("worker/0", SIGKILL);
  const JobDescription lost =
      Await(id, [](const auto& d) { return HasEvent(d, "worker_lost", "worker/0"); });
  EXPECT_EQ(lost.summary().state(), RUNNING);
  EXPECT_FALSE(HasEvent(lost, "blocks_released", "worker/0"));
  Signal("ps/0", SIGCONT);
  const JobDescription back = Await(id, [&](const auto& d) {
    return HasEvent(d, "blocks_released", "worker/0") && Steps(d, 1) > Steps(lost, 1) + 50;
  });
  EXPECT_EQ(back.summary().state(), RUNNING);
  EXPECT_TRUE(HasEvent(back, "shard_back", "ps/0"));
  ASSERT_OK(client_->Cancel(id).status());
  Await(id, Ended);
}

// Numbers begin at 1 again in a new life of the coordinator: what it assigns must not
// look like what the workers and shards had before.
TEST_F(ProcessTest, ANewCoordinatorRunsNewJobsAndDeletesWhatTheOldOneLeft) {
  ASSERT_NO_FATAL_FAILURE(Launch(2, 100, 500));
  const std::string old_id = Submit(EndlessJob());
  Await(old_id, [](const auto& d) { return Steps(d, 0) > 50 && Steps(d, 1) > 50; });
  ASSERT_OK(client_->Cancel(old_id).status());
  Await(old_id, Ended);
  Signal("coordinator/0", SIGKILL);
  AwaitExit("coordinator/0");
  ASSERT_NO_FATAL_FAILURE(Restart("coordinator/0", {"coordinator/coordinator", "serve"}));
  ASSERT_TRUE(PollUntil(kLong, [&] { return client_->Info().ok(); }));
  Job job = SyntheticJob(640, 0);
  job.mutable_stop()->clear_epochs();
  job.mutable_stop()->set_steps(50);
  const std::string id = Submit(job);
  const JobDescription end = Await(id, Ended);
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_EQ(end.counts().steps(), 50u);
  EXPECT_EQ(end.counts().pushes(), 50u);
  EXPECT_EQ(end.counts().duplicates(), 0u);
  const auto orphans = [&] {
    const auto list = client_->List();
    EXPECT_OK(list.status());
    return list.ok() ? list->orphan_size() : -1;
  };
  EXPECT_TRUE(PollUntil(kLong, [&] { return orphans() == 1; }));
  EXPECT_EQ(client_->List()->orphan(0).job(), old_id);
  if (id != old_id) {  // Else the name is the new job's, which goes first.
    ASSERT_OK(client_->Delete(old_id).status());
    EXPECT_TRUE(PollUntil(kLong, [&] { return orphans() == 0; }));
  }
}

TEST_F(ProcessTest, ASliceThatSomebodyDeletesFailsTheJobByName) {
  ASSERT_NO_FATAL_FAILURE(Launch(1, 100, 500));
  const std::string id = Submit(EndlessJob());
  Await(id, [](const auto& d) { return Steps(d, 0) > 50; });
  const auto shard = ShardControl::Create(prefix_ + "ps0", absl::Seconds(5));
  ASSERT_OK_AND_ASSIGN(const ShardStatusReply status, shard->GetStatus(""));
  ASSERT_EQ(status.job_size(), 1);
  EXPECT_THAT(shard->DeleteJob(id, status.job(0).job_term(), /*term=*/0),
              testing::StatusIs(absl::StatusCode::kFailedPrecondition,
                                ::testing::HasSubstr("an earlier one")));
  ASSERT_OK(shard->DeleteJob(id, status.job(0).job_term(), status.term()));
  const JobDescription end = Await(id, Ended);
  EXPECT_EQ(end.summary().state(), FAILED);
  EXPECT_THAT(end.summary().reason(), ::testing::HasSubstr("has no slice of it any more"));
}

}  // namespace
}  // namespace monsoon
