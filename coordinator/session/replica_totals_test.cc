#include "coordinator/session/replica_totals.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

ReplicaStats Stats(uint64_t steps, uint64_t staleness, uint64_t count, double loss) {
  ReplicaStats stats;
  stats.set_steps(steps);
  stats.set_examples(10 * steps);
  stats.set_pushes(count);
  stats.set_loss(loss);
  (*stats.mutable_staleness())[staleness] = count;
  return stats;
}

TEST(ReplicaTotalsTest, SumsSessionsLostOnesIncluded) {
  ReplicaTotals totals;
  totals.Record(0, 1, Stats(5, 0, 5, 1.0));
  totals.Record(0, 1, Stats(6, 0, 6, 0.9));  // Replaces: totals since the opening.
  totals.Record(0, 2, Stats(3, 1, 3, 0.7));  // Rejoined.
  totals.Record(1, 1, Stats(4, 1, 4, 0.5));
  EXPECT_EQ(totals.steps(), 13u);
  EXPECT_EQ(totals.examples(), 130u);
  const ReplicaStats sum = totals.Sum();
  EXPECT_EQ(sum.steps(), 13u);
  EXPECT_EQ(sum.pushes(), 13u);
  EXPECT_EQ(sum.staleness().at(0), 6u);
  EXPECT_EQ(sum.staleness().at(1), 7u);
  EXPECT_EQ(totals.SumOf(0).steps(), 9u);
  EXPECT_EQ(totals.SumOf(7).steps(), 0u);
}

TEST(ReplicaTotalsTest, WhatAReplicaSaysIsFitForATerminal) {
  ReplicaTotals totals;
  ReplicaStats stats = Stats(5, 0, 5, 1.0);
  stats.set_waits_for("ps/1\x1b[2J\nworker/0 is lost");
  totals.Record(0, 1, stats);
  EXPECT_EQ(totals.SumOf(0).waits_for(), "ps/1\\x1b[2J\\nworker/0 is lost");
}

TEST(ReplicaTotalsTest, ReplaysAreSummed) {
  ReplicaTotals totals;
  ReplicaStats stats = Stats(5, 0, 5, 1.0);
  totals.Record(0, 1, stats);
  stats.set_replayed(3);
  stats.set_away_steps(2);
  totals.Record(0, 1, stats);
  totals.Record(1, 1, stats);
  EXPECT_EQ(totals.Sum().replayed(), 6u);
  EXPECT_EQ(totals.Sum().away_steps(), 4u);
}

TEST(ReplicaTotalsTest, OvertakenReportsAreIgnored) {
  ReplicaTotals totals;
  totals.Record(0, 1, Stats(6, 0, 6, 0.9));
  totals.Record(0, 1, Stats(5, 0, 5, 1.0));
  EXPECT_EQ(totals.steps(), 6u);
}

TEST(ReplicaTotalsTest, RecentLossIsTheLiveReplicasMean) {
  ReplicaTotals totals;
  EXPECT_FALSE(totals.RecentOf({0}).has_value());
  totals.Record(0, 1, Stats(6, 0, 6, 9.0));
  totals.Record(0, 2, Stats(60, 0, 6, 1.0));
  totals.Record(1, 1, Stats(6, 0, 6, 2.0));
  totals.Record(2, 1, Stats(6, 0, 6, 6.0));
  EXPECT_EQ(totals.RecentOf({0, 1})->loss, 1.5);
  EXPECT_EQ(totals.RecentOf({5})->loss, 3.0);
}

TEST(ReplicaTotalsTest, TheLossDoesNotBeginAnewWithASession) {
  ReplicaTotals totals;
  totals.Record(0, 1, Stats(500, 0, 500, 1.0));
  totals.Record(0, 2, ReplicaStats());
  EXPECT_EQ(totals.RecentOf({0})->loss, 1.0);
  // One step of a small batch says little.
  totals.Record(0, 2, Stats(1, 0, 1, 3.0));
  EXPECT_DOUBLE_EQ(*totals.RecentOf({0})->loss, 1.04);
  totals.Record(0, 2, Stats(25, 0, 25, 3.0));
  EXPECT_DOUBLE_EQ(*totals.RecentOf({0})->loss, 2.0);
  totals.Record(0, 2, Stats(50, 0, 50, 3.0));
  EXPECT_DOUBLE_EQ(*totals.RecentOf({0})->loss, 3.0);
}

TEST(ReplicaTotalsTest, WhatNobodyTellsIsNotZero) {
  ReplicaTotals totals;
  totals.Record(0, 1, Stats(6, 0, 6, 1.0));
  ReplicaStats silent = Stats(6, 0, 6, 0.0);
  silent.clear_loss();
  totals.Record(1, 1, silent);
  EXPECT_EQ(totals.RecentOf({0, 1})->loss, 1.0);
  EXPECT_EQ(totals.RecentOf({0, 1})->accuracy, std::nullopt);
  EXPECT_FALSE(totals.Sum().has_accuracy());
  ReplicaStats judged = Stats(7, 0, 7, 2.0);
  judged.set_accuracy(0.0);
  totals.Record(1, 1, judged);
  EXPECT_EQ(totals.RecentOf({0, 1})->accuracy, 0.0);
}

}  // namespace
}  // namespace monsoon
