// Seeded random schedules over the whole core, each to its end (CoordinatorSimulation).
//
//   coordinator_simulation_test --seeds=1000..1999     (default: the first 2000)

#include "coordinator/core/coordinator_simulation.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/testing/seeds.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoordinatorSimulation;

testing::Seeds seeds = testing::FirstSeeds(2000);

TEST(CoordinatorSimulationTest, EveryScheduleEnds) {
  uint64_t restores = 0;
  uint64_t coordinator_deaths = 0;
  for (uint64_t seed = seeds.first; seed < seeds.end; ++seed) {
    SCOPED_TRACE(absl::StrCat("--seeds=", seed, "..", seed));
    CoordinatorSimulation simulation(static_cast<uint32_t>(seed));
    simulation.Run();
    if (HasFailure()) {
      return;
    }
    restores += simulation.restores();
    coordinator_deaths += simulation.coordinator_deaths();
  }
  const uint64_t count = seeds.end - seeds.first;
  std::printf("%llu seeds: %llu restores, %llu deaths of the coordinator\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(restores),
              static_cast<unsigned long long>(coordinator_deaths));
  EXPECT_GT(restores, count / 100);
  EXPECT_GT(coordinator_deaths, count / 100);
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  return monsoon::testing::RunWithSeeds(argc, argv, &monsoon::seeds);
}
