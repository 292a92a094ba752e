// Sandblaster jobs on a whole cluster in one process.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/testing/status_matchers.h"
#include "tests/cluster/batch_jobs.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon {
namespace {

using testing::BatchJob;
using testing::SyntheticJob;
using testing::TestCluster;
using testing::TraceOf;
using testing::TracePoint;

bool HasEvent(const JobDescription& description, const std::string& kind) {
  return std::any_of(description.event().begin(), description.event().end(),
                     [&](const auto& event) { return event.kind() == kind; });
}

uint64_t Counted(const JobDescription& description) {
  uint64_t counted = 0;
  for (const auto& worker : description.worker()) counted += worker.blocks_done();
  return counted;
}

struct Outcome {
  JobDescription end;
  std::vector<TracePoint> trace;
  std::vector<float> parameters;
};

void RunToEnd(const TestCluster::Options& options, const Job& job, Outcome* run) {
  TestCluster cluster(options);
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
  ASSERT_OK_AND_ASSIGN(run->end, cluster.AwaitEnd(id));
  ASSERT_EQ(run->end.summary().state(), SUCCEEDED) << run->end.summary().reason();
  run->trace = TraceOf(run->end);
  ASSERT_OK_AND_ASSIGN(run->parameters, cluster.Parameters(id));
}

TEST(SandblasterTest, OneReplicaFetchesOncePerEvaluationAndSendsEachContributionOnce) {
  Outcome run;
  ASSERT_NO_FATAL_FAILURE(RunToEnd({.shards = 3}, BatchJob(40, 25), &run));
  const JobDescription::Sandblaster& sandblaster = run.end.sandblaster();
  EXPECT_EQ(sandblaster.end_reason(), "max_iterations");
  EXPECT_EQ(sandblaster.reproducibility(), "same bits");
  ASSERT_EQ(run.trace.size(), 26u);  // with the start
  for (size_t i = 1; i < run.trace.size(); ++i) {
    EXPECT_LT(run.trace[i].f, run.trace[i - 1].f) << "iteration " << i;
  }
  EXPECT_EQ(run.trace.back().evaluations, sandblaster.evaluations());
  // And the probe that gave the first evaluation its range: contribution 0.
  const uint64_t evaluations = sandblaster.evaluations() + sandblaster.overflows();
  EXPECT_EQ(run.end.counts().fetches(), evaluations + 1);
  EXPECT_EQ(Counted(run.end), 40 * evaluations + 1);
  EXPECT_EQ(run.end.counts().pushes(), 40 * evaluations + 1);
  EXPECT_EQ(run.end.counts().refused(), 0u);
  // History 10 is full: no command grows with the parameters.
  std::printf("largest command %d bytes, %.1f commands and %.0f bytes an iteration\n",
              static_cast<int>(sandblaster.largest_command_bytes()),
              static_cast<double>(sandblaster.commands()) / 25,
              static_cast<double>(sandblaster.command_bytes()) / 25);
  EXPECT_GT(sandblaster.largest_command_bytes(), 100u);
  EXPECT_LT(sandblaster.largest_command_bytes(), 1024u);
}

TEST(SandblasterTest, AnyNumberOfReplicasAndAnyScheduleGiveTheSameBits) {
  const Job job = BatchJob(60, 30);
  Outcome alone;
  ASSERT_NO_FATAL_FAILURE(RunToEnd({.shards = 2}, job, &alone));
  ASSERT_EQ(alone.trace.size(), 31u);
  for (const int workers : {2, 3}) {
    SCOPED_TRACE(workers);
    Outcome run;
    ASSERT_NO_FATAL_FAILURE(RunToEnd({.shards = 2, .workers = workers}, job, &run));
    EXPECT_EQ(run.trace, alone.trace);
    EXPECT_EQ(run.parameters, alone.parameters);
    const uint64_t evaluations =
        run.end.sandblaster().evaluations() + run.end.sandblaster().overflows();
    EXPECT_EQ(Counted(run.end), 60 * evaluations + 1);
    // The probe, too, may have a second copy.
    EXPECT_LE(run.end.counts().fetches(), workers * (evaluations + 1));
    EXPECT_GE(run.end.counts().fetches(), evaluations + 1);
  }
  // One replica slow by a contribution's length: others copy what it holds.
  Outcome copied;
  ASSERT_NO_FATAL_FAILURE(RunToEnd(
      {.shards = 2, .workers = 3, .worker_faults = {{1, {.compute_delay_ms = 60}}}}, job, &copied));
  EXPECT_EQ(copied.trace, alone.trace);
  EXPECT_EQ(copied.parameters, alone.parameters);
  EXPECT_GT(copied.end.sandblaster().chunks_backup(), 0u);
  // Every RPC between workers and the coordinator may be lost, before or after.
  Outcome lossy;
  ASSERT_NO_FATAL_FAILURE(RunToEnd(
      {.shards = 2, .workers = 3, .worker_fault = {.drop = 0.05, .seed = 3}}, job, &lossy));
  EXPECT_EQ(lossy.trace, alone.trace);
  EXPECT_EQ(lossy.parameters, alone.parameters);
}

TEST(SandblasterTest, ASampleOfTheTrainingSetIsTheBatch) {
  Job job = BatchJob(60, 5);
  job.mutable_sandblaster()->set_sample_examples(16 * 20 + 7);
  Outcome run;
  ASSERT_NO_FATAL_FAILURE(RunToEnd({.workers = 2}, job, &run));
  const uint64_t evaluations =
      run.end.sandblaster().evaluations() + run.end.sandblaster().overflows();
  EXPECT_EQ(Counted(run.end), 21 * evaluations + 1);
}

TEST(SandblasterTest, EndsAtTheAccuracyThatWasAskedFor) {
  Job job = BatchJob(20, 200);
  *job.mutable_test() = SyntheticJob(1, 0).test();
  job.mutable_sandblaster()->set_evaluate_every_iterations(2);
  job.mutable_sandblaster()->set_target_accuracy(0.8);
  Outcome run;
  ASSERT_NO_FATAL_FAILURE(RunToEnd({.shards = 2, .workers = 2}, job, &run));
  EXPECT_EQ(run.end.sandblaster().end_reason(), "target_reached");
  EXPECT_LT(run.trace.size(), 100u);
  ASSERT_GE(run.end.evaluation_size(), 1);
  const auto& evaluations = run.end.evaluation();
  EXPECT_TRUE(std::any_of(evaluations.begin(), evaluations.end(), [](const auto& evaluation) {
    return evaluation.test_accuracy() >= 0.8;
  }));
}

TEST(SandblasterTest, GoesOnFromTheParametersOfDownpour) {
  Job job = SyntheticJob(2000, 2);
  job.mutable_sandblaster()->set_max_iterations(10);
  job.mutable_sandblaster()->set_l2(1e-4);
  TestCluster cluster({.shards = 2, .workers = 3});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_TRUE(HasEvent(end, "sandblaster"));
  EXPECT_EQ(end.sandblaster().end_reason(), "max_iterations");
  const std::vector<TracePoint> trace = TraceOf(end);
  ASSERT_EQ(trace.size(), 11u);
  // The start is what Downpour reached, far below a guess among five classes.
  EXPECT_LT(trace.front().f, 0.5 * std::log(5.0));
  EXPECT_LT(trace.back().f, trace.front().f);
  ASSERT_TRUE(end.has_final_test_accuracy());
  EXPECT_GT(end.final_test_accuracy(), 0.9);
  for (const auto& shard : end.shard()) EXPECT_GT(shard.version_min(), 0u);
}

TEST(SandblasterTest, ACancelDuringABatchEndsItQuickly) {
  TestCluster cluster({.workers = 2, .worker_fault = {.compute_delay_ms = 300}});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(BatchJob(1000, 100)));
  ASSERT_OK(cluster
                .Await(id,
                       [](const JobDescription& d) {
                         return d.sandblaster().chunks_total() == 1000 &&
                                d.sandblaster().chunks_done() > 0;
                       })
                .status());
  const absl::Duration begin = Clock::Real()->Now();
  ASSERT_OK(cluster.client()->Cancel(id).status());
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  EXPECT_EQ(end.summary().state(), CANCELLED);
  EXPECT_LE(Clock::Real()->Now() - begin, absl::Seconds(3));
  // Nothing of it is in the way of the next.
  Job next = BatchJob(4, 1);
  ASSERT_OK_AND_ASSIGN(const std::string next_id, cluster.Submit(next));
  ASSERT_OK_AND_ASSIGN(const JobDescription next_end, cluster.AwaitEnd(next_id));
  EXPECT_EQ(next_end.summary().state(), SUCCEEDED) << next_end.summary().reason();
}

TEST(SandblasterTest, ARunningJobShowsTheParametersOfItsLastIteration) {
  Job job = BatchJob(40, 30);
  TestCluster cluster({.shards = 2, .workers = 2, .worker_fault = {.compute_delay_ms = 5}});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
  // Nothing is published while an evaluation is open.
  const auto in_evaluation = [](const JobDescription& d) {
    return d.sandblaster().iteration() >= 2 && d.sandblaster().chunks_done() > 0;
  };
  std::vector<float> parameters;
  std::optional<uint32_t> iteration;
  while (!iteration) {
    ASSERT_OK_AND_ASSIGN(const JobDescription before, cluster.Await(id, in_evaluation));
    ASSERT_OK_AND_ASSIGN(parameters, cluster.Parameters(id));
    ASSERT_OK_AND_ASSIGN(const JobDescription after, cluster.Describe(id));
    ASSERT_EQ(after.summary().state(), RUNNING);
    if (in_evaluation(after) &&
        after.sandblaster().iteration() == before.sandblaster().iteration()) {
      iteration = after.sandblaster().iteration();
    }
  }
  ASSERT_OK(cluster.client()->Cancel(id).status());
  job.mutable_sandblaster()->set_max_iterations(*iteration);
  Outcome stopped;
  ASSERT_NO_FATAL_FAILURE(RunToEnd({.shards = 2, .workers = 2}, job, &stopped));
  EXPECT_EQ(parameters, stopped.parameters) << "after iteration " << *iteration;
}

}  // namespace
}  // namespace monsoon
