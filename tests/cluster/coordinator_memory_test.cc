// Vectors live on the shards: the coordinator's memory and the bytes it sends do
// not grow with the model. Real processes, and a quadratic that the shards
// compute alone, of 10^5, 10^6 and 10^8 parameters.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/job.h"
#include "common/process/subprocess.h"
#include "common/testing/status_matchers.h"
#include "coordinator/client/job_client.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon {
namespace {

using testing::PollUntil;
using testing::UniqueName;

constexpr char kPreset[] = "configs/job/sandblaster_synthetic.textproto";
constexpr int kShards = 2;
constexpr uint64_t kInputs = 1000;  // of the preset's dense layer
constexpr uint64_t kMostGrowth = uint64_t{4} << 20;
constexpr uint64_t kMostCommandBytes = 1024;

// A number of bytes out of /proc.
uint64_t ResidentBytes(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/statm"));
  uint64_t size = 0;
  uint64_t resident = 0;
  return file >> size >> resident ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}
uint64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  while (file >> name) {
    uint64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) {
      return kib << 10;
    }
  }
  return 0;
}

struct Measured {
  uint64_t resident = 0;     // the most seen while the job ran and after
  double command_bytes = 0;  // mean of a command
  uint64_t largest_command = 0;
};

// Two shards and a coordinator, each its own process. No workers.
class CoordinatorMemoryTest : public ::testing::Test {
 protected:
  // Forks before this process has a second thread.
  void SetUp() override {
    const std::string name = UniqueName();
    const std::string prefix = absl::StrCat("unix-abstract:monsoon-", name, "-");
    const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name, ".textproto");
    std::string text =
        absl::StrCat("name: \"", name, "\" coordinator { address: \"", prefix, "coordinator\" }\n");
    for (int i = 0; i < kShards; ++i) {
      absl::StrAppend(&text, "ps { address: \"", prefix, "ps", i, "\" memory_limit_mib: 6144 }\n");
    }
    std::ofstream(path) << text;
    const std::string cluster = "--cluster=" + path;
    for (const std::vector<std::string>& argv :
         std::vector<std::vector<std::string>>{{"./coordinator/coordinator", "serve", cluster},
                                               {"./ps_server/ps_server", "--task=0", cluster},
                                               {"./ps_server/ps_server", "--task=1", cluster}}) {
      ASSERT_OK_AND_ASSIGN(Subprocess process,
                           Subprocess::Start(argv, {.pipe_stdout = false, .pipe_stderr = false}));
      processes_.push_back(std::move(process));
    }
    client_ = JobClient::Create(prefix + "coordinator", absl::Seconds(5));
    ASSERT_TRUE(PollUntil(absl::Seconds(30), [&] { return client_->Info().ok(); }));
  }

  void TearDown() override {
    for (Subprocess& process : processes_) process.Signal(SIGTERM);
    for (Subprocess& process : processes_) {
      EXPECT_TRUE(PollUntil(absl::Seconds(15), [&] { return process.TryWait().has_value(); }));
    }
  }

  absl::StatusOr<Measured> Run(uint64_t parameters, int history, int iterations,
                               absl::Duration timeout) {
    LoadOptions load;
    load.overrides = {absl::StrCat("model.layer[0].dense.units=", parameters / kInputs),
                      absl::StrCat("sandblaster.history=", history),
                      absl::StrCat("sandblaster.max_iterations=", iterations),
                      "sandblaster.gradient_tolerance=1e-12"};
    SubmitRequest request;
    ASSIGN_OR_RETURN(*request.mutable_job(), LoadJob(kPreset, load));
    ASSIGN_OR_RETURN(const SubmitReply reply, client_->Submit(request));

    Measured measured;
    absl::StatusOr<JobDescription> job;
    PollUntil(timeout, [&] {
      measured.resident = std::max(measured.resident, ResidentBytes(processes_[0].pid()));
      job = client_->Describe(reply.job());
      return !job.ok() || job->summary().state() >= SUCCEEDED;
    });
    RETURN_IF_ERROR(job.status());
    const JobDescription::Sandblaster& end = job->sandblaster();
    if (job->summary().state() != SUCCEEDED || job->parameters() != parameters ||
        end.iteration() != static_cast<uint32_t>(iterations)) {
      return absl::InternalError(job->ShortDebugString());
    }
    RETURN_IF_ERROR(client_->Delete(reply.job()).status());
    // An iteration takes the same round trips at any size, and so does an
    // evaluation (minimizer.h, synthetic_objective.h); only the first line search
    // begins further from its step when the gradient is longer.
    EXPECT_LE(end.commands(), kShards * 5 * (end.iteration() + end.evaluations()));
    measured.command_bytes =
        static_cast<double>(end.command_bytes()) / static_cast<double>(end.commands());
    measured.largest_command = end.largest_command_bytes();
    std::printf(
        "%9lu parameters, history %d: coordinator %.2f MiB, %lu commands in %d iterations and %lu "
        "evaluations, of %.1f bytes, the largest %lu; %.1f s\n",
        parameters, history, static_cast<double>(measured.resident) / (1 << 20), end.commands(),
        iterations, end.evaluations(), measured.command_bytes, measured.largest_command,
        job->summary().elapsed_s());
    return measured;
  }

  static void ExpectSame(const Measured& small, const Measured& large) {
    ASSERT_GT(small.resident, 0u);
    EXPECT_LT(large.resident, small.resident + kMostGrowth);
    EXPECT_LE(large.command_bytes, 1.01 * small.command_bytes);
    EXPECT_LT(large.largest_command, kMostCommandBytes);
    EXPECT_LE(large.largest_command, small.largest_command + 16);
  }

 private:
  std::vector<Subprocess> processes_;  // the coordinator first
  std::unique_ptr<JobClient> client_;
};

TEST_F(CoordinatorMemoryTest, DoesNotGrowFromAHundredThousandToAMillion) {
  // Long enough to fill the history.
  constexpr int kIterations = 15;
  ASSERT_OK_AND_ASSIGN(const Measured small, Run(100'000, 10, kIterations, absl::Seconds(60)));
  ASSERT_OK_AND_ASSIGN(const Measured large, Run(1'000'000, 10, kIterations, absl::Seconds(120)));
  ExpectSame(small, large);
}

TEST_F(CoordinatorMemoryTest, DoesNotGrowToAHundredMillion) {
  // Twelve vectors of 400 MB at most, of a history of 3, and the parameters.
  constexpr uint64_t kNeeded = uint64_t{8} << 30;
  if (AvailableBytes() < kNeeded) {
    GTEST_SKIP() << "10^8 parameters need " << (kNeeded >> 20) << " MiB of free memory; there are "
                 << (AvailableBytes() >> 20);
  }
  constexpr int kIterations = 6;
  ASSERT_OK_AND_ASSIGN(const Measured small, Run(100'000, 3, kIterations, absl::Seconds(60)));
  ASSERT_OK_AND_ASSIGN(const Measured large, Run(100'000'000, 3, kIterations, absl::Minutes(8)));
  ExpectSame(small, large);
}

}  // namespace
}  // namespace monsoon
