// Whole jobs in virtual time: shares of unequal replicas, backup copies, and
// exact sums through kills, repeated calls and delayed results.
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/sandblaster/simulated_cluster.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

constexpr absl::Duration kEach = absl::Milliseconds(100);

SandblasterOptions Options(uint32_t contributions) {
  SandblasterOptions options;
  options.examples = uint64_t{contributions} * 10;
  options.plan = *ChunkPlan::Make(
      {.examples = options.examples, .chunk_examples = 10, .chunks_per_contribution = 1});
  options.max_iterations = 100;
  return options;
}

// Three replicas and one that takes four times as long.
std::vector<absl::Duration> OneSlow() { return {kEach, kEach, 4 * kEach, kEach}; }

absl::Duration Ideal(const std::vector<absl::Duration>& each, uint32_t contributions) {
  double rates = 0;
  for (const absl::Duration duration : each) {
    rates += 1 / absl::ToDoubleSeconds(duration);
  }
  return absl::Seconds(contributions / rates);
}

double Affinity(SimulatedCluster& cluster) {
  const ContributionScheduler::Statistics& statistics = cluster.job().scheduler().statistics();
  return static_cast<double>(statistics.continuing_leases) / static_cast<double>(statistics.leases);
}

TEST(SandblasterSimulationTest, ASlowReplicaDoesAsMuchAsItCan) {
  constexpr uint32_t kContributions = 200;
  SimulatedCluster cluster(Options(kContributions), OneSlow(), {}, 1);
  const absl::Duration ideal = Ideal(OneSlow(), kContributions);
  std::vector<uint64_t> before(4, 0);
  for (int evaluation = 1; evaluation <= 10; ++evaluation) {
    const auto outcome = cluster.Evaluate();
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(*outcome, cluster.Expected(evaluation));
    EXPECT_LE(outcome->result.took, 1.2 * ideal) << "evaluation " << evaluation;
    RecordProperty("took_percent_" + std::to_string(evaluation),
                   static_cast<int>(100 * outcome->result.took / ideal));
    std::vector<double> share(4);
    for (uint32_t worker = 0; worker < 4; ++worker) {
      const uint64_t done = cluster.job().work_done_by(worker);
      share[worker] = static_cast<double>(done - std::exchange(before[worker], done));
    }
    for (const uint32_t fast : {0, 1, 3}) {
      EXPECT_GE(share[fast] / share[2], 3.0) << "evaluation " << evaluation;
      EXPECT_LE(share[fast] / share[2], 5.0) << "evaluation " << evaluation;
    }
  }
  EXPECT_GT(Affinity(cluster), 0.8);
  RecordProperty("affinity_percent", static_cast<int>(100 * Affinity(cluster)));
  RecordProperty("backup_copies",
                 static_cast<int>(cluster.job().scheduler().statistics().backup_copies));
}

TEST(SandblasterSimulationTest, EqualReplicasKeepTheirRuns) {
  const std::vector<absl::Duration> equal(4, kEach);
  SimulatedCluster cluster(Options(200), equal, {}, 2);
  for (int evaluation = 1; evaluation <= 5; ++evaluation) {
    const auto outcome = cluster.Evaluate();
    ASSERT_TRUE(outcome.has_value());
    EXPECT_LE(outcome->result.took, 1.1 * Ideal(equal, 200));
  }
  EXPECT_GT(Affinity(cluster), 0.9);
  // Backup copies are for the few last ones, not for everything outstanding.
  EXPECT_LE(cluster.job().scheduler().statistics().backup_copies, 5u * 4u);
}

// A replica that stops at any point near the end delays the batch by about the
// time that a copy of what it held takes.
TEST(SandblasterSimulationTest, AFrozenReplicaDelaysTheBatchByOneCopy) {
  constexpr uint32_t kContributions = 200;
  const std::vector<absl::Duration> equal(4, kEach);
  for (int step = 0; step < 20; ++step) {
    SimulatedCluster cluster(Options(kContributions), equal, {}, 3);
    ASSERT_TRUE(cluster.Evaluate().has_value());
    const absl::Duration ideal = Ideal(equal, kContributions);
    cluster.After(ideal - step * kEach / 8, [&] { cluster.Freeze(1); });
    const auto outcome = cluster.Evaluate();
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(*outcome, cluster.Expected(2));
    // The end without the fault, and one copy, once the original is overdue.
    EXPECT_LE(outcome->result.took, ideal + 1.25 * kEach + 1.1 * kEach) << "step " << step;
    cluster.Thaw(1);
    ASSERT_TRUE(cluster.Evaluate().has_value());
  }
}

TEST(SandblasterSimulationTest, WithoutBackupCopiesAFrozenReplicaIsWaitedFor) {
  SandblasterOptions options = Options(200);
  options.backup_copies = false;
  const std::vector<absl::Duration> equal(4, kEach);
  SimulatedCluster cluster(options, equal, {}, 3);
  ASSERT_TRUE(cluster.Evaluate().has_value());
  cluster.After(Ideal(equal, 200) - 2 * kEach, [&] { cluster.Freeze(1); });
  const auto outcome = cluster.Evaluate();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_GE(outcome->result.took, Ideal(equal, 200) + absl::Seconds(0.5));
}

struct Trace {
  std::vector<SimulatedCluster::Outcome> outcomes;
  SimulatedCluster::Counts counts;
  ContributionScheduler::Statistics statistics;
};

// 50 evaluations, with `kills` kills at random moments.
Trace RunJob(const SimulatedFaults& faults, int kills, uint64_t seed) {
  constexpr uint32_t kContributions = 60;
  constexpr int kEvaluations = 50;
  SimulatedCluster cluster(Options(kContributions), OneSlow(), faults, seed);
  std::mt19937_64 random(seed + 1000);
  const auto uniform = [&random](double low, double high) {
    return absl::Seconds(std::uniform_real_distribution<>(low, high)(random));
  };
  const double length = absl::ToDoubleSeconds(Ideal(OneSlow(), kContributions));
  Trace trace;
  for (int evaluation = 0; evaluation < kEvaluations; ++evaluation) {
    for (int i = evaluation * kills / kEvaluations; i < (evaluation + 1) * kills / kEvaluations;
         ++i) {
      const uint32_t first = static_cast<uint32_t>(random() % 4);
      const absl::Duration unnoticed = uniform(0, 0.5);
      const absl::Duration absent = uniform(0, 0.5);
      cluster.After(uniform(0, length), [&cluster, first, unnoticed, absent] {
        for (uint32_t i = 0; i < 4; ++i) {
          if (const uint32_t worker = (first + i) % 4; cluster.live(worker)) {
            cluster.Kill(worker, unnoticed, absent);
            break;
          }
        }
      });
    }
    const auto outcome = cluster.Evaluate();
    EXPECT_TRUE(outcome.has_value()) << "evaluation " << evaluation + 1 << ", seed " << seed;
    if (!outcome) {
      break;
    }
    EXPECT_TRUE(*outcome == cluster.Expected(evaluation + 1))
        << "evaluation " << evaluation + 1 << ", seed " << seed;
    trace.outcomes.push_back(*outcome);
  }
  trace.counts = cluster.counts();
  trace.statistics = cluster.job().scheduler().statistics();
  return trace;
}

TEST(SandblasterSimulationTest, TheSameBitsThroughKillsRepeatsAndDelays) {
  const Trace undisturbed = RunJob({}, 0, 1);
  ASSERT_EQ(undisturbed.outcomes.size(), 50u);
  EXPECT_EQ(undisturbed.statistics.leased_again, 0u);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Trace disturbed = RunJob({.lost_replies = 0.02,
                                    .repeated_requests = 0.1,
                                    .delayed_requests = 0.02,
                                    .max_delay = absl::Seconds(4)},
                                   100, seed);
    ASSERT_EQ(disturbed.outcomes.size(), 50u);
    EXPECT_TRUE(disturbed.outcomes == undisturbed.outcomes) << "seed " << seed;
    // The faults that this test is about did happen.
    EXPECT_GE(disturbed.counts.kills, 90u);
    EXPECT_GT(disturbed.counts.lost_replies, 20u);
    EXPECT_GT(disturbed.counts.repeated_requests, 100u);
    EXPECT_GT(disturbed.counts.delayed_requests, 20u);
    EXPECT_GT(disturbed.counts.shard_duplicates, 5u);
    EXPECT_GT(disturbed.statistics.backup_copies, 20u);
    EXPECT_GT(disturbed.statistics.leased_again, 20u);
    EXPECT_GT(disturbed.statistics.second_results, 5u);
    EXPECT_GT(disturbed.statistics.late_results, 20u);
  }
}

TEST(SandblasterSimulationTest, ANonFiniteContributionEndsTheEvaluation) {
  SimulatedCluster cluster(Options(200), OneSlow(), {}, 4);
  ASSERT_TRUE(cluster.Evaluate().has_value());
  cluster.Spoil(1);
  const auto spoiled = cluster.Evaluate();
  ASSERT_TRUE(spoiled.has_value());
  EXPECT_FALSE(spoiled->result.finite);
  EXPECT_EQ(spoiled->result.loss_sum, std::numeric_limits<double>::infinity());
  EXPECT_LE(spoiled->result.took, 3 * kEach);
  const auto next = cluster.Evaluate();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(*next, cluster.Expected(3));
}

TEST(SandblasterSimulationTest, TestSetEvaluationsOverlapTheBatch) {
  SandblasterOptions options = Options(100);
  options.has_test = true;
  options.evaluate_every_iterations = 2;
  SimulatedCluster cluster(options, OneSlow(), {}, 5);
  for (uint32_t iteration = 1; iteration <= 7; ++iteration) {
    const auto outcome = cluster.Evaluate();
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(*outcome, cluster.Expected(iteration));
    JobDescription::Iteration done;
    done.set_iteration(iteration);
    cluster.job().NoteIteration(done, cluster.now());
  }
  cluster.job().DriverDone({"max_iterations", ""}, cluster.now());
  cluster.RunFor(absl::Seconds(10));
  EXPECT_EQ(cluster.job().phase(), JobProcedure::Phase::kDone);
  std::vector<uint64_t> steps;
  for (const TestResult& record : cluster.job().test_results()) {
    steps.push_back(record.step);
  }
  EXPECT_EQ(steps, (std::vector<uint64_t>{2, 4, 6, 7}));
  EXPECT_TRUE(cluster.job().test_results().back().final);
}

}  // namespace
}  // namespace monsoon
