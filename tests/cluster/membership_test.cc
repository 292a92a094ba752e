// Replicas that come late, leave, and are lost.
#include "common/testing/status_matchers.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon {
namespace {

using testing::PollUntil;
using testing::SyntheticJob;
using testing::TestCluster;

const JobDescription::Worker* Find(const JobDescription& description, uint32_t task) {
  for (const auto& worker : description.worker()) {
    if (worker.task() == task) return &worker;
  }
  return nullptr;
}

bool HasEvent(const JobDescription& description, const std::string& kind) {
  for (const auto& event : description.event()) {
    if (event.kind() == kind) return true;
  }
  return false;
}

// Long enough for the test to act on it; ended by Cancel.
Job EndlessJob() {
  Job job = SyntheticJob(2000, 0);
  job.mutable_stop()->clear_epochs();
  job.mutable_stop()->set_seconds(300);
  return job;
}

TEST(MembershipTest, ALateJoinerGetsWork) {
  TestCluster cluster({.shards = 1, .workers = 2, .started_workers = 1});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(EndlessJob()));
  ASSERT_OK(cluster.Await(id, [](const auto& d) { return d.counts().steps() > 50; }).status());
  ASSERT_OK(cluster.StartWorker(1));
  ASSERT_OK(cluster
                .Await(id,
                       [](const auto& d) {
                         const auto* late = Find(d, 1);
                         return late != nullptr && late->blocks_done() > 2;
                       })
                .status());
  ASSERT_OK(cluster.client()->Cancel(id).status());
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  EXPECT_EQ(end.summary().state(), CANCELLED);
}

TEST(MembershipTest, ADrainedWorkerLosesNothing) {
  TestCluster cluster({.shards = 2, .workers = 2});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(SyntheticJob(4000, 40)));
  ASSERT_OK(cluster
                .Await(id,
                       [](const auto& d) {
                         const auto* worker = Find(d, 1);
                         return worker != nullptr && worker->blocks_done() > 3;
                       })
                .status());
  cluster.DrainWorker(1);
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster.AwaitEnd(id));
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_TRUE(HasEvent(end, "worker_left"));
  EXPECT_EQ(end.data().blocks_done(), 40u * 63);
  // Every gradient of both workers is counted and applied everywhere.
  for (const auto& shard : end.shard()) {
    EXPECT_EQ(shard.version_min(), end.counts().pushes());
  }
}

TEST(MembershipTest, ASilentWorkerIsLostRefusedAndRejoins) {
  TestCluster cluster({.shards = 2, .workers = 2, .lost_after_ms = 500});
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(EndlessJob()));
  const auto both_work = [](const JobDescription& d) {
    const auto* a = Find(d, 0);
    const auto* b = Find(d, 1);
    return a != nullptr && b != nullptr && a->blocks_done() > 2 && b->blocks_done() > 2;
  };
  ASSERT_OK(cluster.Await(id, both_work).status());
  cluster.Mute(1, true);
  ASSERT_OK_AND_ASSIGN(const JobDescription lost,
                       cluster.Await(id, [](const auto& d) { return HasEvent(d, "worker_lost"); }));
  const uint64_t others = Find(lost, 0)->blocks_done();
  const uint64_t before = Find(lost, 1)->steps();
  // Its blocks are leased again and the other goes on.
  ASSERT_OK(cluster
                .Await(id,
                       [&](const auto& d) {
                         return d.data().blocks_released() > 0 &&
                                Find(d, 0)->blocks_done() > others + 5;
                       })
                .status());
  cluster.Mute(1, false);
  ASSERT_OK(
      cluster.Await(id, [&](const auto& d) { return Find(d, 1)->steps() > before + 20; }).status());
  ASSERT_OK(cluster.client()->Cancel(id).status());
  ASSERT_OK(cluster.AwaitEnd(id).status());
}

}  // namespace
}  // namespace monsoon
