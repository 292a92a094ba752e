// Worker processes with several replicas, in a whole cluster in one process:
// one session, fetch and push for all of them, and what happens when some fail.
#include "common/base/mutex.h"
#include "common/testing/status_matchers.h"
#include "tests/cluster/batch_jobs.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using testing::BatchJob;
using ::testing::HasSubstr;
using testing::SyntheticJob;
using testing::TestCluster;
using testing::TraceOf;

constexpr absl::Duration kLong = absl::Seconds(30);

bool HasEvent(const JobDescription& description, const std::string& kind) {
  for (const auto& event : description.event()) {
    if (event.kind() == kind) return true;
  }
  return false;
}

TEST(HostTest, FourReplicasFetchAndPushAsOneAndHaveTheBitsOfOneThatSumsFour) {
  Job job = SyntheticJob(1024, 2);  // blocks of four batches
  job.mutable_downpour()->set_overlap(NONE);
  std::vector<float> of_four;
  {
    TestCluster cluster({.shards = 2, .replicas = 4});
    ASSERT_OK(cluster.Start());
    ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
    ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
    ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.ShortDebugString();
    EXPECT_EQ(end.counts().steps(), 128u);
    EXPECT_EQ(end.counts().fetches(), 32u);
    EXPECT_EQ(end.counts().pushes(), 32u);
    EXPECT_EQ(end.progress().examples(), 2048u);
    EXPECT_EQ(end.data().blocks_done(), 32u);
    EXPECT_EQ(end.shard(0).version_max(), 32u);
    EXPECT_EQ(end.staleness().at(0), 32u);
    ASSERT_EQ(end.worker_size(), 1);
    EXPECT_EQ(end.worker(0).replicas(), 4u);
    EXPECT_EQ(end.worker(0).replicas_lost(), 0u);
    ASSERT_OK_AND_ASSIGN(of_four, cluster.Parameters(id));
  }
  job.mutable_downpour()->set_n_fetch(4);
  job.mutable_downpour()->set_n_push(4);
  TestCluster cluster({.shards = 2});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.ShortDebugString();
  ASSERT_OK_AND_ASSIGN(const std::vector<float> of_one, cluster.Parameters(id));
  EXPECT_EQ(of_four, of_one);
}

TEST(HostTest, TwoHostsOfThreeReplicasLearn) {
  TestCluster cluster({.shards = 2, .workers = 2, .replicas = 3});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(SyntheticJob(4000, 6)));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.ShortDebugString();
  EXPECT_EQ(end.counts().steps(), 6u * 250);
  EXPECT_LT(end.counts().pushes(), end.counts().steps());
  EXPECT_EQ(end.shard(0).version_min(), end.counts().pushes());
  ASSERT_GE(end.evaluation_size(), 1);
  EXPECT_GT(end.evaluation(end.evaluation_size() - 1).test_accuracy(), 0.9);
}

TEST(HostTest, ALostReplicaIsCountedAndTheOthersGoOn) {
  TestCluster cluster({.worker_fault = {.break_device_after = 5}, .replicas = 4});
  ASSERT_OK(cluster.Start());
  Job job = SyntheticJob(4000, 2);
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.ShortDebugString();
  EXPECT_EQ(end.worker(0).replicas(), 3u);
  EXPECT_EQ(end.worker(0).replicas_lost(), 1u);
  // No batch was lost with it, and none computed twice.
  EXPECT_EQ(end.counts().steps(), 2u * 250);
  EXPECT_EQ(end.data().blocks_done(), 2u * 63);
  EXPECT_EQ(end.data().blocks_released(), 0u);
}

TEST(HostTest, AWorkerWithoutADeviceLeavesAndSaysWhy) {
  Mutex mutex;
  CondVar changed;
  int lost = -1;
  TestCluster cluster({.workers = 2,
                       .worker_faults = {{1, {.break_device_after = 10}}},
                       .on_device_lost = [&](int worker) {
                         MutexLock lock(&mutex);
                         lost = worker;
                         changed.NotifyAll();
                       }});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(SyntheticJob(4000, 4)));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.ShortDebugString();
  EXPECT_EQ(end.data().blocks_done(), 4u * 63);
  EXPECT_TRUE(HasEvent(end, "worker_failed"));
  for (const auto& event : end.event()) {
    if (event.kind() == "worker_failed") {
      EXPECT_THAT(event.text(),
                  AllOf(HasSubstr("worker/1"), HasSubstr("oneDNN"), HasSubstr("the device broke")));
    }
  }
  MutexLock lock(&mutex);
  EXPECT_TRUE(changed.WaitFor(&mutex, kLong, [&] {
    mutex.AssertHeld();
    return lost == 1;
  }));
}

TEST(HostTest, APrecisionThatTheDeviceLacksFailsTheJobByName) {
  TestCluster cluster({.replicas = 2});
  ASSERT_OK(cluster.Start());
  Job job = SyntheticJob(256, 1);
  job.set_compute_precision(Job::BFLOAT16);
  ASSERT_OK_AND_ASSIGN(const std::string refused, cluster.Submit(job));
  ASSERT_OK_AND_ASSIGN(JobDescription end, cluster.AwaitEnd(refused));
  EXPECT_EQ(end.summary().state(), FAILED);
  EXPECT_THAT(end.summary().reason(), AllOf(HasSubstr("worker/0"), HasSubstr("BFLOAT16")));
  job.set_compute_precision(Job::TF32);  // a permission
  ASSERT_OK_AND_ASSIGN(const std::string taken, cluster.Submit(job));
  ASSERT_OK_AND_ASSIGN(end, cluster.AwaitEnd(taken));
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
}

TEST(HostTest, ABatchJobHasTheSameBitsWithAnyNumberOfReplicas) {
  Job job = BatchJob(12, 8);
  job.mutable_sandblaster()->set_no_backup_copies(true);
  job.mutable_sandblaster()->set_chunks_per_contribution(6);
  std::vector<uint64_t> fetches;
  std::vector<std::vector<testing::TracePoint>> traces;
  for (const uint32_t replicas : {1u, 4u}) {
    TestCluster cluster({.shards = 2, .replicas = replicas});
    ASSERT_OK(cluster.Start());
    ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
    ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
    ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.ShortDebugString();
    EXPECT_EQ(end.sandblaster().reproducibility(), "same bits");
    fetches.push_back(end.counts().fetches());
    traces.push_back(TraceOf(end));
  }
  EXPECT_GE(traces[0].size(), 5u);
  EXPECT_EQ(traces[0], traces[1]);
  EXPECT_EQ(fetches[0], fetches[1]);  // one an evaluation, for all replicas
}

}  // namespace
}  // namespace monsoon
