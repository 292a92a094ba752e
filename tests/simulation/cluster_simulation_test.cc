// Whole clusters in virtual time, one a seed (cluster_simulation.h).
//
//   cluster_simulation_test --seeds=1000..1999     (default: the first 1000)
//
// A seed that fails fails again, step by step the same.

#include "tests/simulation/cluster_simulation.h"

#include <cstdint>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/testing/seeds.h"
#include "gtest/gtest.h"

namespace monsoon::simulation {
namespace {

testing::Seeds seeds = testing::FirstSeeds(1000);

void Print(const char* what, uint64_t count) {
  std::printf("  %-22s %llu\n", what, static_cast<unsigned long long>(count));
}

TEST(ClusterSimulationTest, EveryAcknowledgedPushCountsOnceAndTheJobEnds) {
  SimulationCounts counts;
  FiberStacks stacks;
  for (uint64_t seed = seeds.first; seed < seeds.end; ++seed) {
    SCOPED_TRACE(absl::StrCat("--seeds=", seed, "..", seed));
    ClusterSimulation simulation(seed, &stacks, &counts);
    simulation.Run();
    if (HasFailure()) {
      return;
    }
  }
  Print("seeds", seeds.end - seeds.first);
  Print("pushes", counts.pushes);
  Print("sessions", counts.sessions);
  Print("sessions lost", counts.lost_sessions);
  Print("records reported lost", counts.lost_records);
  Print("slices restored", counts.restores);
  Print("jobs failed by right", counts.failed_jobs);
  for (size_t fault = 0; fault < counts.faults.size(); ++fault) {
    Print(kFaultNames[fault], counts.faults[fault]);
    if (seeds.end - seeds.first >= 50) {
      EXPECT_GT(counts.faults[fault], 0u) << kFaultNames[fault];
    }
  }
  EXPECT_LE(counts.failed_jobs, (seeds.end - seeds.first) / 10);
}

}  // namespace
}  // namespace monsoon::simulation

int main(int argc, char** argv) {
  monsoon::InitLogging("simulation", monsoon::LogLevel::ERROR);
  return monsoon::testing::RunWithSeeds(argc, argv, &monsoon::simulation::seeds);
}
