// Vectors live on the shards: the memory of the coordinator's minimiser and the
// bytes it sends do not grow with the model. Real processes, and a quadratic that
// the shards compute alone, of 10^5, 10^6 and 10^8 parameters.
#include <google/protobuf/text_format.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/memory/available_memory.h"
#include "common/process/subprocess.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"
#include "tests/cluster/poll_until.h"

namespace monsoon {
namespace {

using testing::PollUntil;
using testing::UniqueName;

constexpr int kShards = 2;
constexpr uint64_t kInputs = 1000;  // of the dense layer, as quadratic_main.cc has it
constexpr uint64_t kMostGrowth = uint64_t{4} << 20;
constexpr uint64_t kMostCommandBytes = 1024;

// A number of bytes out of /proc.
struct Measured {
  uint64_t resident = 0;     // the most while the job ran
  double command_bytes = 0;  // mean of a command
  uint64_t largest_command = 0;
};

// Two shards and a minimiser, each its own process. No workers.
class CoordinatorMemoryTest : public ::testing::Test {
 protected:
  // Forks before this process has a second thread.
  void SetUp() override {
    const std::string name = UniqueName();
    const std::string prefix = testing::UniqueSocketAddress() + "-";
    files_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
    std::string text =
        absl::StrCat("name: \"", name, "\" coordinator { address: \"", prefix, "coordinator\" }\n");
    for (int i = 0; i < kShards; ++i) {
      shards_.push_back(absl::StrCat("--shard=", prefix, "ps", i));
      absl::StrAppend(&text, "ps { address: \"", prefix, "ps", i, "\" memory_limit_mib: 6144 }\n");
    }
    std::ofstream(files_ + ".textproto") << text;
    for (int i = 0; i < kShards; ++i) {
      ASSERT_OK_AND_ASSIGN(Subprocess process,
                           Subprocess::Start({"./ps_server/ps_server", absl::StrCat("--task=", i),
                                              absl::StrCat("--cluster=", files_, ".textproto")},
                                             {.pipe_stdout = false, .pipe_stderr = false}));
      processes_.push_back(std::move(process));
    }
  }

  void TearDown() override {
    for (Subprocess& process : processes_) process.Signal(SIGTERM);
    for (Subprocess& process : processes_) {
      EXPECT_TRUE(PollUntil(absl::Seconds(15), [&] { return process.TryWait().has_value(); }));
    }
  }

  absl::StatusOr<Measured> Run(uint64_t parameters, int history, int iterations,
                               absl::Duration timeout) {
    const std::string out = absl::StrCat(files_, ".", parameters);
    std::vector<std::string> argv = {"./tests/cluster/quadratic",
                                     absl::StrCat("--units=", parameters / kInputs),
                                     absl::StrCat("--history=", history),
                                     absl::StrCat("--iterations=", iterations), "--out=" + out};
    argv.insert(argv.end(), shards_.begin(), shards_.end());
    const absl::Duration begin = Clock::Real()->Now();
    ASSIGN_OR_RETURN(Subprocess minimizer,
                     Subprocess::Start(argv, {.pipe_stdout = false, .pipe_stderr = false}));
    PollUntil(timeout, [&] { return minimizer.TryWait().has_value(); });
    const absl::Duration elapsed = Clock::Real()->Now() - begin;
    Measured measured;
    JobDescription job;
    std::ifstream file(out);
    file >> measured.resident;
    google::protobuf::TextFormat::ParseFromString(
        std::string(std::istreambuf_iterator<char>(file), {}), &job);
    const JobDescription::Sandblaster& end = job.sandblaster();
    if (job.parameters() != parameters || end.iteration() != static_cast<uint32_t>(iterations)) {
      return absl::InternalError(job.ShortDebugString());
    }
    // An iteration takes the same round trips at any size, and so does an
    // evaluation (minimizer.h, synthetic_objective.h); only the first line search
    // begins further from its step when the gradient is longer.
    EXPECT_LE(end.commands(), kShards * 5 * (end.iteration() + end.evaluations()));
    measured.command_bytes =
        static_cast<double>(end.command_bytes()) / static_cast<double>(end.commands());
    measured.largest_command = end.largest_command_bytes();
    std::printf(
        "%9lu parameters, history %d: minimiser %.2f MiB, %lu commands in %d iterations and %lu "
        "evaluations, of %.1f bytes, the largest %lu; %.1f s\n",
        parameters, history, static_cast<double>(measured.resident) / (1 << 20), end.commands(),
        iterations, end.evaluations(), measured.command_bytes, measured.largest_command,
        absl::ToDoubleSeconds(elapsed));
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
  std::string files_;  // how their names begin
  std::vector<std::string> shards_;
  std::vector<Subprocess> processes_;
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
  const uint64_t available = AvailableMemory().value_or(0);
  if (available < kNeeded) {
    GTEST_SKIP() << "10^8 parameters need " << (kNeeded >> 20) << " MiB of free memory; there are "
                 << (available >> 20);
  }
  constexpr int kIterations = 6;
  ASSERT_OK_AND_ASSIGN(const Measured small, Run(100'000, 3, kIterations, absl::Seconds(60)));
  ASSERT_OK_AND_ASSIGN(const Measured large, Run(100'000'000, 3, kIterations, absl::Minutes(8)));
  ExpectSame(small, large);
}

}  // namespace
}  // namespace monsoon
