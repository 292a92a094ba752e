// Real processes: what happens when one is killed, stopped or terminated.
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/process/subprocess.h"
#include "common/testing/status_matchers.h"
#include "coordinator/client/job_client.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon {
namespace {

using testing::PollUntil;
using testing::SyntheticJob;
using testing::UniqueName;

constexpr absl::Duration kLong = absl::Seconds(60);

class ProcessTest : public ::testing::Test {
 protected:
  // Forks before this process has a second thread.
  void Launch(int workers, uint32_t heartbeat_ms, uint32_t lost_after_ms) {
    const std::string name = UniqueName();
    const std::string prefix = absl::StrCat("unix-abstract:monsoon-", name, "-");
    std::string text =
        absl::StrCat("name: \"", name, "\" heartbeat_ms: ", heartbeat_ms,
                     " lost_after_ms: ", lost_after_ms, "\ncoordinator { address: \"", prefix,
                     "coordinator\" }\nps { address: \"", prefix, "ps0\" }\n");
    for (int i = 0; i < workers; ++i) {
      absl::StrAppend(&text, "worker { address: \"", prefix, "worker", i, "\" device: CPU }\n");
    }
    const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name, ".textproto");
    std::FILE* file = std::fopen(path.c_str(), "w");
    ASSERT_NE(file, nullptr);
    std::fputs(text.c_str(), file);
    std::fclose(file);
    // Workers first: any order must do.
    for (int i = 0; i < workers; ++i) {
      Start(absl::StrCat("worker/", i), {"worker/worker", absl::StrCat("--task=", i)}, path);
    }
    Start("ps/0", {"ps_server/ps_server", "--task=0"}, path);
    Start("coordinator/0", {"coordinator/coordinator", "serve"}, path);
    client_ = JobClient::Create(prefix + "coordinator", absl::Seconds(5));
    ASSERT_TRUE(PollUntil(kLong, [&] { return client_->Info().ok(); }));
  }

  // All that still live end on SIGTERM with 0, in bounded time.
  void TearDown() override {
    for (auto& [task, process] : processes_) process.Signal(SIGTERM);
    for (auto& [task, process] : processes_) {
      EXPECT_TRUE(PollUntil(absl::Seconds(15), [&] { return process.TryWait().has_value(); }))
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

  std::map<std::string, Subprocess> processes_;
  std::map<std::string, bool> killed_;
  std::unique_ptr<JobClient> client_;

 private:
  void Start(const std::string& task, std::vector<std::string> argv, const std::string& cluster) {
    argv[0] = absl::StrCat("./", argv[0]);
    argv.push_back("--cluster=" + cluster);
    auto process = Subprocess::Start(argv, {.pipe_stdout = false, .pipe_stderr = false});
    ASSERT_OK(process.status());
    processes_.emplace(task, *std::move(process));
  }
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

TEST_F(ProcessTest, AStoppedWorkerDoesNotSlowTheOthersAndRejoins) {
  ASSERT_NO_FATAL_FAILURE(Launch(3, 50, 2000));
  const std::string id = Submit(EndlessJob());
  Await(id,
        [](const auto& d) { return Steps(d, 0) > 100 && Steps(d, 1) > 100 && Steps(d, 2) > 100; });
  // Steps a second of the two others, over a window.
  const auto rate = [&](absl::Duration window) {
    const absl::Duration begin = Clock::Real()->Now();
    const JobDescription first = Describe(id);
    PollUntil(window, [] { return false; });
    const JobDescription last = Describe(id);
    return static_cast<double>(Steps(last, 0) + Steps(last, 1) - Steps(first, 0) -
                               Steps(first, 1)) /
           absl::ToDoubleSeconds(Clock::Real()->Now() - begin);
  };
  const double before = rate(absl::Seconds(3));
  Signal("worker/2", SIGSTOP);
  const double silent = rate(absl::Seconds(3));  // stopped, and lost on the way
  const JobDescription lost =
      Await(id, [](const auto& d) { return HasEvent(d, "worker_lost", "worker/2"); });
  const double after = rate(absl::Seconds(2));
  std::printf("steps/s of the others: %.0f with it, %.0f while it is silent, %.0f after\n", before,
              silent, after);
  EXPECT_GE(silent, 0.95 * before);
  EXPECT_GE(after, 0.95 * before);
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

}  // namespace
}  // namespace monsoon
