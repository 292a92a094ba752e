// LeNet on Fashion-MNIST, three seeds of ten epochs: the accuracy that the
// project promises. Takes about a quarter of an hour on two cores.
#include <algorithm>
#include <map>

#include "common/base/status.h"
#include "common/testing/status_matchers.h"
#include "tests/convergence/fashion_mnist.h"

namespace monsoon {
namespace {

using testing::Preset;
using testing::StaleShare;
using testing::TrainInOneProcess;
using testing::TrainOnCluster;

constexpr absl::Duration kOneJob = absl::Minutes(30);

// One process alone is deterministic, so each seed is trained once.
absl::StatusOr<double> OneProcessAccuracy(const Job& job, int seed) {
  static auto& known = *new std::map<int, double>();
  if (const auto it = known.find(seed); it != known.end()) return it->second;
  ASSIGN_OR_RETURN(const double accuracy, TrainInOneProcess(job));
  return known[seed] = accuracy;
}

class FullConvergenceTest : public ::testing::TestWithParam<int> {};

TEST_P(FullConvergenceTest, ReachesTheAccuracyOfOneProcess) {
  double sum = 0;
  double baseline_sum = 0;
  double least = 1;
  constexpr int kSeeds = 3;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    ASSERT_OK_AND_ASSIGN(const Job job, Preset("lenet", {absl::StrCat("seed=", seed)}));
    ASSERT_OK_AND_ASSIGN(const JobDescription end, TrainOnCluster(job, GetParam(), kOneJob));
    ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
    ASSERT_OK_AND_ASSIGN(const double baseline, OneProcessAccuracy(job, seed));
    std::printf("seed %d, %d replicas: accuracy %.4f, one process %.4f, %.0f %% stale\n", seed,
                GetParam(), end.final_test_accuracy(), baseline, 100 * StaleShare(end));
    sum += end.final_test_accuracy();
    baseline_sum += baseline;
    least = std::min(least, end.final_test_accuracy());
    if (GetParam() > 1) {
      EXPECT_GE(StaleShare(end), 0.1);
    }
  }
  EXPECT_GE(sum / kSeeds, 0.88);
  EXPECT_GE(least, 0.875);
  EXPECT_NEAR(sum / kSeeds, baseline_sum / kSeeds, 0.01);
}

INSTANTIATE_TEST_SUITE_P(Replicas, FullConvergenceTest, ::testing::Values(1, 3),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace monsoon
