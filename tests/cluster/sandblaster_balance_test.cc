// How the work of a batch is shared when one replica is slower than the others.
// Delays are much longer than the computing, so that few cores suffice.
#include <cstdio>
#include <string>

#include "common/testing/status_matchers.h"
#include "tests/cluster/batch_jobs.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon {
namespace {

using testing::BatchJob;
using testing::SecondsPerEvaluation;
using testing::TestCluster;

constexpr uint32_t kFastMs = 15;
constexpr uint32_t kSlowMs = 4 * kFastMs;

void RunToEnd(const TestCluster::Options& options, const Job& job, JobDescription* end) {
  TestCluster cluster(options);
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
  ASSERT_OK_AND_ASSIGN(*end, cluster.AwaitEnd(id));
  ASSERT_EQ(end->summary().state(), SUCCEEDED) << end->summary().reason();
}

// Contributions a second of a replica that works alone.
void MeasureRate(uint32_t delay_ms, double* rate) {
  constexpr uint32_t kContributions = 30;
  JobDescription end;
  ASSERT_NO_FATAL_FAILURE(RunToEnd({.worker_fault = {.compute_delay_ms = delay_ms}},
                                   BatchJob(kContributions, 1), &end));
  *rate = kContributions / SecondsPerEvaluation(end);
}

TEST(SandblasterBalanceTest, AReplicaFourTimesSlowerGetsAQuarter) {
  double fast = 0, slow = 0;
  ASSERT_NO_FATAL_FAILURE(MeasureRate(kFastMs, &fast));
  ASSERT_NO_FATAL_FAILURE(MeasureRate(kSlowMs, &slow));

  constexpr uint32_t kContributions = 260;  // 208 and 52
  JobDescription end;
  ASSERT_NO_FATAL_FAILURE(RunToEnd({.workers = 2,
                                    .worker_fault = {.compute_delay_ms = kFastMs},
                                    .worker_faults = {{1, {.compute_delay_ms = kSlowMs}}}},
                                   BatchJob(kContributions, 2), &end));
  ASSERT_EQ(end.worker_size(), 2);
  const auto evaluations = static_cast<double>(end.sandblaster().evaluations());
  const auto of_fast = static_cast<double>(end.worker(0).blocks_done());
  const auto of_slow = static_cast<double>(end.worker(1).blocks_done());
  const double seconds = SecondsPerEvaluation(end);
  const double ideal = kContributions / (fast + slow);
  std::printf(
      "alone %.1f and %.1f contributions/s; together %.0f and %.0f of them (%.2f : 1), %.3f s an "
      "evaluation, %.3f times work / sum of rates\n",
      fast, slow, of_fast, of_slow, of_fast / of_slow, seconds, seconds / ideal);
  EXPECT_GE(of_slow / evaluations, 45);
  EXPECT_GE(of_fast / of_slow, 3);
  EXPECT_LE(of_fast / of_slow, 5);
  EXPECT_LE(seconds, 1.2 * ideal);
}

TEST(SandblasterBalanceTest, MostLeasesContinueTheRunOfTheirReplica) {
  JobDescription end;
  ASSERT_NO_FATAL_FAILURE(RunToEnd({.workers = 4,
                                    .worker_fault = {.compute_delay_ms = 5},
                                    .worker_faults = {{2, {.compute_delay_ms = 20}}}},
                                   BatchJob(240, 5), &end));
  std::printf("affinity %.3f\n", end.sandblaster().affinity());
  EXPECT_GT(end.sandblaster().affinity(), 0.8);
  EXPECT_LE(end.sandblaster().affinity(), 1);
}

}  // namespace
}  // namespace monsoon
