#include "worker/session/replica_stats.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(StatsCollectorTest, CountsEachKindApart) {
  StatsCollector stats;
  stats.AddFetch({.bytes = 100, .rpcs = 2, .retries = 1, .fetch_width = 3}, absl::Milliseconds(2));
  stats.AddEvaluationFetch({.bytes = 10, .rpcs = 2});
  ParameterClient::PushResult push;
  push.staleness = 4;
  push.rpcs = 2;
  push.bytes = 50;
  stats.AddPush(push, absl::Milliseconds(1));
  push.staleness = -1;
  stats.AddPush(push, absl::Milliseconds(1));
  push.refused_invalid = 2;
  stats.AddPush(push, absl::Milliseconds(1));
  stats.AddRefused();
  const ReplicaStats figures = stats.Snapshot();
  EXPECT_EQ(figures.fetches(), 1u);
  EXPECT_EQ(figures.evaluation_fetches(), 1u);
  EXPECT_EQ(figures.pushes(), 3u);
  EXPECT_EQ(figures.refused(), 2u);
  EXPECT_EQ(figures.rpcs(), 10u);
  EXPECT_EQ(figures.retries(), 1u);
  EXPECT_EQ(figures.bytes_fetched(), 110u);
  EXPECT_EQ(figures.bytes_pushed(), 150u);
  EXPECT_EQ(figures.staleness().at(4), 1u);
  EXPECT_EQ(figures.staleness().size(), 1u);
  EXPECT_EQ(figures.staleness_unknown(), 1u);
  EXPECT_EQ(figures.fetch_width().at(3), 1u);
  uint64_t pushes = 0;
  for (const auto& [bucket, count] : figures.push_latency()) pushes += count;
  EXPECT_EQ(pushes, 3u);
}

TEST(StatsCollectorTest, AContributionIsAPushWithoutStaleness) {
  StatsCollector stats;
  stats.SetBackends({"cpu threads 1"});
  stats.AddContribution({.duplicates = 2, .rpcs = 3, .retries = 1, .bytes = 70},
                        absl::Milliseconds(1));
  const ReplicaStats figures = stats.Snapshot();
  EXPECT_EQ(figures.pushes(), 1u);
  EXPECT_EQ(figures.duplicates(), 2u);
  EXPECT_EQ(figures.rpcs(), 3u);
  EXPECT_EQ(figures.retries(), 1u);
  EXPECT_EQ(figures.bytes_pushed(), 70u);
  EXPECT_TRUE(figures.staleness().empty());
  EXPECT_EQ(figures.staleness_unknown(), 0u);
  EXPECT_THAT(figures.backend_fingerprint(), ::testing::ElementsAre("cpu threads 1"));
}

TEST(StatsCollectorTest, SeveralStepsAtOnceCountAsSuch) {
  StatsCollector stats;
  stats.AddStep({.loss_mean = 4.0, .examples = 10}, absl::Milliseconds(1));
  stats.AddStep({.loss_mean = 1.0, .examples = 90, .steps = 9}, absl::Milliseconds(90));
  EXPECT_EQ(stats.Snapshot().steps(), 10u);
  EXPECT_EQ(stats.Snapshot().examples(), 100u);
  EXPECT_DOUBLE_EQ(stats.Snapshot().loss(), 1.3);
  stats.AddStep({.examples = 10, .has_loss = false}, absl::Milliseconds(1));
  EXPECT_DOUBLE_EQ(stats.Snapshot().loss(), 1.3);
  EXPECT_EQ(stats.Snapshot().steps(), 11u);
}

TEST(StatsCollectorTest, MeansStartPlainAndForgetSlowly) {
  StatsCollector stats;
  stats.AddStep({.loss_mean = 4.0, .correct = 0, .examples = 10}, absl::Milliseconds(1));
  stats.AddStep({.loss_mean = 2.0, .correct = 10, .examples = 10}, absl::Milliseconds(1));
  EXPECT_DOUBLE_EQ(stats.Snapshot().loss(), 3.0);
  EXPECT_DOUBLE_EQ(stats.Snapshot().accuracy(), 0.5);
  for (int i = 0; i < 1000; ++i) {
    stats.AddStep({.loss_mean = 1.0, .correct = 10, .examples = 10}, absl::Milliseconds(1));
  }
  EXPECT_NEAR(stats.Snapshot().loss(), 1.0, 1e-6);
  EXPECT_EQ(stats.Snapshot().examples(), 10020u);
}

TEST(StatsCollectorTest, AStepsTimeIsWhatItComputesFor) {
  StatsCollector stats;
  stats.AddStep({.examples = 10}, absl::Milliseconds(9));
  EXPECT_EQ(stats.Snapshot().step_compute_ms(), 0.0) << "nobody told it";
  stats.AddStep({.examples = 10, .computing = absl::Milliseconds(4)}, absl::Milliseconds(9));
  EXPECT_DOUBLE_EQ(stats.Snapshot().step_compute_ms(), 4.0);
  stats.AddStep({.examples = 10, .computing = absl::Milliseconds(1)}, absl::Milliseconds(9));
  EXPECT_DOUBLE_EQ(stats.Snapshot().step_compute_ms(), 3.0);
  // So many at once replace what was known.
  stats.AddStep({.examples = 1000, .steps = 100, .computing = absl::Milliseconds(200)},
                absl::Milliseconds(900));
  EXPECT_DOUBLE_EQ(stats.Snapshot().step_compute_ms(), 2.0);
  // None tells nothing.
  stats.AddStep({.steps = 0, .computing = absl::Milliseconds(50)}, absl::Milliseconds(90));
  EXPECT_DOUBLE_EQ(stats.Snapshot().step_compute_ms(), 2.0);
}

TEST(StatsCollectorTest, WhatNoStepTellsIsNotKnown) {
  StatsCollector stats;
  stats.AddStep({.examples = 10, .has_loss = false, .unjudged = 10}, absl::Milliseconds(1));
  EXPECT_FALSE(stats.Snapshot().has_loss());
  EXPECT_FALSE(stats.Snapshot().has_accuracy());
  // The first that is told is not averaged with nothing.
  stats.AddStep({.loss_mean = 3.0, .examples = 10, .unjudged = 10}, absl::Milliseconds(1));
  EXPECT_DOUBLE_EQ(stats.Snapshot().loss(), 3.0);
  EXPECT_FALSE(stats.Snapshot().has_accuracy());
  // Without a loss, and of half of the samples.
  stats.AddStep({.correct = 4, .examples = 10, .has_loss = false, .unjudged = 5},
                absl::Milliseconds(1));
  EXPECT_DOUBLE_EQ(stats.Snapshot().loss(), 3.0);
  EXPECT_DOUBLE_EQ(stats.Snapshot().accuracy(), 0.8);
}

TEST(StatsCollectorTest, AReplicaWaitsUntilACallSucceeds) {
  StatsCollector stats;
  EXPECT_EQ(stats.Snapshot().waits_for(), "");
  stats.SetWaitsFor("ps/0 at h:1: all data streams are open");
  EXPECT_EQ(stats.Snapshot().waits_for(), "ps/0 at h:1: all data streams are open");
  stats.AddRetry("ps/0 at h:1: no answer within 10s");
  EXPECT_EQ(stats.Snapshot().waits_for(), "ps/0 at h:1: no answer within 10s");
  EXPECT_EQ(stats.Snapshot().retries(), 1u);
  stats.AddFetch({}, absl::ZeroDuration());
  EXPECT_EQ(stats.Snapshot().waits_for(), "");
}

}  // namespace
}  // namespace monsoon
