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
  // Forks before this process has a second thread. Each worker gets the fault
  // of its number; "" and where there is none: no fault.
  void Launch(int workers, uint32_t heartbeat_ms, uint32_t lost_after_ms,
              const std::vector<std::string>& faults = {}) {
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
      const std::string fault = i < std::ssize(faults) ? faults[i] : "";
      Start(absl::StrCat("worker/", i),
            {"worker/worker", absl::StrCat("--task=", i), "--fault=" + fault}, path);
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

}  // namespace
}  // namespace monsoon
