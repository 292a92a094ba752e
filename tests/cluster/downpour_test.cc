// Downpour jobs on a whole cluster in one process.
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "tests/cluster/test_cluster.h"
#include "worker/baseline/trainer.h"

namespace monsoon {
namespace {

using testing::SyntheticJob;
using testing::TestCluster;

uint64_t Sum(const google::protobuf::Map<uint64_t, uint64_t>& histogram) {
  uint64_t sum = 0;
  for (const auto& [value, count] : histogram) sum += count;
  return sum;
}

TEST(DownpourTest, ThreeReplicasFinishAndTheFiguresAgree) {
  TestCluster cluster({.shards = 2, .workers = 3});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string job, cluster.Submit(SyntheticJob(4000, 6)));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(job));
  ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.ShortDebugString();
  // 63 blocks an epoch, the last with 32 examples: 250 steps.
  EXPECT_EQ(end.counts().steps(), 6u * 250);
  EXPECT_EQ(end.counts().pushes(), end.counts().steps());
  EXPECT_EQ(end.counts().refused(), 0u);
  EXPECT_EQ(Sum(end.staleness()), end.counts().pushes());
  EXPECT_EQ(Sum(end.fetch_width()), end.counts().fetches());
  EXPECT_EQ(end.data().blocks_done(), 6u * 63);
  EXPECT_EQ(end.data().blocks_released(), 0u);
  uint64_t steps = 0, blocks = 0;
  for (const auto& worker : end.worker()) {
    steps += worker.steps();
    blocks += worker.blocks_done();
  }
  EXPECT_EQ(steps, end.counts().steps());
  EXPECT_EQ(blocks, end.data().blocks_done());
  // Every push reached every stripe of every shard.
  for (const auto& shard : end.shard()) {
    EXPECT_EQ(shard.version_min(), end.counts().pushes());
    EXPECT_EQ(shard.version_max(), end.counts().pushes());
  }
  ASSERT_GE(end.evaluation_size(), 1);
  EXPECT_GT(end.evaluation(end.evaluation_size() - 1).test_accuracy(), 0.9);
}

TEST(DownpourTest, StopsAtExactlyTheStepsOrEpochsAskedFor) {
  for (const uint32_t replicas : {1u, 3u}) {
    TestCluster cluster({.shards = 2, .workers = 3, .replicas = replicas});
    ASSERT_OK(cluster.Start());
    for (const uint64_t steps : {1, 7, 61, 130}) {
      Job job = SyntheticJob(1000, 0);  // 63 steps an epoch, four to a block
      job.mutable_stop()->clear_epochs();
      job.mutable_stop()->set_steps(steps);
      ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
      ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
      ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.ShortDebugString();
      EXPECT_EQ(end.counts().steps(), steps);
      EXPECT_EQ(end.progress().percent(), 100);
    }
    ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(SyntheticJob(1000, 0.3)));
    ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
    EXPECT_EQ(end.progress().examples(), 300u);
    EXPECT_EQ(end.progress().epoch(), 0.3);
  }
}

// One worker with overlap NONE, and the same job in one process.
class BitEqualityTest : public ::testing::Test {
 protected:
  static std::vector<float> OnCluster(const Job& job, int shards, JobDescription* end) {
    TestCluster cluster({.shards = shards});
    EXPECT_OK(cluster.Start());
    auto id = cluster.Submit(job);
    EXPECT_OK(id.status());
    auto ended = cluster.AwaitEnd(*id);
    EXPECT_OK(ended.status());
    EXPECT_EQ(ended->summary().state(), SUCCEEDED) << ended->summary().reason();
    *end = *ended;
    auto parameters = cluster.Parameters(*id);
    EXPECT_OK(parameters.status());
    return *parameters;
  }
  static std::vector<float> InOneProcess(const Job& job) {
    auto trainer = Trainer::Create(job, {});
    EXPECT_OK(trainer.status());
    EXPECT_OK((*trainer)->Run([](const TrainingReport&) {}).status());
    const auto parameters = (*trainer)->parameters();
    return {parameters.begin(), parameters.end()};
  }
};

TEST_F(BitEqualityTest, AnyShardCountAndTheBaselineGiveTheSameBits) {
  Job job = SyntheticJob(1000, 2);
  job.mutable_downpour()->set_overlap(NONE);
  const std::vector<float> expected = InOneProcess(job);
  for (const int shards : {1, 2, 3, 7, 16}) {
    SCOPED_TRACE(shards);
    JobDescription end;
    EXPECT_EQ(OnCluster(job, shards, &end), expected);
    EXPECT_EQ(end.counts().fetches(), 126u);
    EXPECT_EQ(end.counts().pushes(), 126u);
  }
}

TEST_F(BitEqualityTest, AlsoWithAdagradAndWiderFetchesAndPushes) {
  Job job = SyntheticJob(1000, 2);
  job.mutable_downpour()->set_overlap(NONE);
  job.mutable_downpour()->set_n_fetch(4);
  job.mutable_downpour()->set_n_push(2);
  job.mutable_downpour()->mutable_optimizer()->mutable_adagrad()->set_rate(0.05);
  JobDescription end;
  EXPECT_EQ(OnCluster(job, 3, &end), InOneProcess(job));
}

struct CountCase {
  uint32_t n_fetch;
  uint32_t n_push;
};
class CountTest : public ::testing::TestWithParam<CountCase> {};

// The pushed sums equal the local gradients' sums: with SGD and rate 1 the
// shards' change is minus their sum, and the baseline computes that by itself.
TEST_P(CountTest, FetchesAndPushesAreTheCeilings) {
  const auto [n_fetch, n_push] = GetParam();
  Job job = SyntheticJob(16 * 67, 1);  // 67 steps
  job.mutable_downpour()->set_overlap(NONE);
  job.mutable_downpour()->set_n_fetch(n_fetch);
  job.mutable_downpour()->set_n_push(n_push);
  job.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(1.0 / 64);
  TestCluster cluster({.shards = 2});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_EQ(end.counts().steps(), 67u);
  EXPECT_EQ(end.counts().fetches(), (67 + n_fetch - 1) / n_fetch);
  EXPECT_EQ(end.counts().pushes(), (67 + n_push - 1) / n_push);
  EXPECT_GE(end.counts().evaluation_fetches(), 1u);
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(job, {}));
  ASSERT_OK(trainer->Run([](const TrainingReport&) {}).status());
  ASSERT_OK_AND_ASSIGN(const std::vector<float> parameters, cluster.Parameters(id));
  for (size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_EQ(parameters[i], trainer->parameters()[i]) << "at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, CountTest,
                         ::testing::Values(CountCase{1, 1}, CountCase{4, 2}, CountCase{3, 5},
                                           CountCase{10, 1}, CountCase{1, 10}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.n_fetch, "_", info.param.n_push);
                         });

TEST(OverlapTest, ASlowNetworkCostsAnAsyncStepMuchLessThanTheSum) {
  double step_ms[2] = {0, 0};
  for (const Overlap overlap : {NONE, ASYNC}) {
    Job job = SyntheticJob(16 * 60, 1);
    job.mutable_downpour()->set_overlap(overlap);
    job.clear_test();
    TestCluster cluster({.shards = 1, .workers = 1, .worker_fault = {.delay_ms = 20}});
    ASSERT_OK(cluster.Start());
    ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
    ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
    ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
    step_ms[overlap] = end.latency_ms().step_p50();
    EXPECT_GE(end.latency_ms().fetch_p50(), 19.0);
    EXPECT_GE(end.latency_ms().push_p50(), 19.0);
  }
  std::printf("step p50 with 20 ms in every RPC: NONE %.1f ms, ASYNC %.1f ms\n", step_ms[NONE],
              step_ms[ASYNC]);
  // Fetch and push, one after the other; a bucket of the histogram is 5 % wide.
  EXPECT_GE(step_ms[NONE], 38.0);
  EXPECT_LE(step_ms[ASYNC], 0.75 * step_ms[NONE]);  // one push in flight bounds it
}

TEST(DivergenceTest, ANonFiniteLossFailsTheJobByName) {
  Job job = SyntheticJob(4000, 3);
  job.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(1e30);
  TestCluster cluster({.shards = 2, .workers = 2});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  EXPECT_EQ(end.summary().state(), FAILED);
  EXPECT_THAT(end.summary().reason(), ::testing::StartsWith("diverged: "));
  EXPECT_THAT(end.summary().reason(), ::testing::HasSubstr("worker/"));
  EXPECT_THAT(end.summary().reason(), ::testing::HasSubstr("step "));
}

}  // namespace
}  // namespace monsoon
