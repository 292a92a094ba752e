// A scripted schedule over real shards and a real coordinator: the test plays
// the replicas, so every staleness, width and skew is known beforehand.
#include <memory>
#include <vector>

#include "common/model/parameter_layout.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/client/replica_client.h"
#include "ps_server/client/parameter_client.h"
#include "tests/cluster/test_cluster.h"
#include "worker/session/replica_stats.h"

namespace monsoon {
namespace {

using ::testing::Pair;
using testing::SyntheticJob;
using testing::TestCluster;
using ::testing::UnorderedElementsAre;

// One replica played by hand.
class Actor {
 public:
  Actor(const Cluster& cluster, uint32_t task)
      : cluster_(cluster),
        task_(task),
        client_(ReplicaClient::Create(cluster.coordinator().address(), absl::Seconds(10))) {}

  HeartbeatReply Beat() {
    HeartbeatRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_cluster(cluster_.name());
    request.set_task(task_);
    request.set_incarnation(incarnation_);
    request.set_term(term_);
    request.set_pid(1000 + task_);
    request.set_device("CPU");
    request.set_threads(1);
    if (assignment_.has_session()) {
      *request.mutable_session() = assignment_.session();
      *request.mutable_stats() = stats_.Snapshot();
    }
    auto reply = client_->Heartbeat(request);
    EXPECT_OK(reply.status());
    incarnation_ = reply->incarnation();
    term_ = reply->term();
    return *reply;
  }

  // Joins and waits for its session. `cut_shard`: this shard's address leads
  // nowhere, so that pushes reach only the others.
  void Open(int cut_shard = -1) {
    ASSERT_TRUE(testing::PollUntil(absl::Seconds(20), [&] {
      const HeartbeatReply reply = Beat();
      assignment_ = reply.assignment();
      return reply.has_assignment();
    }));
    ASSERT_OK_AND_ASSIGN(const ParameterLayout layout,
                         ParameterLayout::Create(assignment_.job().model()));
    gradient_.assign(layout.size(), 0.0f);
    parameters_.resize(layout.size());
    ParameterClientOptions options;
    options.job = assignment_.session().job();
    options.job_term = assignment_.session().job_term();
    options.worker = task_;
    options.incarnation = assignment_.session().incarnation();
    options.layout_hash = assignment_.layout_hash();
    options.addresses = {assignment_.shard_address().begin(), assignment_.shard_address().end()};
    options.shard_epochs = {assignment_.shard_epoch().begin(), assignment_.shard_epoch().end()};
    options.deadline = absl::Seconds(20);
    if (cut_shard >= 0) {
      options.addresses[cut_shard] = testing::UniqueSocketAddress();
      options.deadline = absl::Milliseconds(500);
    }
    ASSERT_OK_AND_ASSIGN(options.map,
                         ShardMap::Create(layout.size(), assignment_.shard_address_size(),
                                          assignment_.max_stripe_bytes()));
    ASSERT_OK_AND_ASSIGN(shards_, ParameterClient::Create(options));
  }

  void Fetch() {
    FetchStats fetch;
    ASSERT_OK(shards_->Fetch(parameters_, &base_, &fetch));
    stats_.AddFetch(fetch, absl::Milliseconds(1));
  }
  void Push() {
    ASSERT_OK_AND_ASSIGN(const auto pushed, shards_->Push(gradient_, base_));
    stats_.AddPush(pushed, absl::Milliseconds(1));
  }
  // Applied by the shards it reaches, never finished.
  void PushInVain() {
    EXPECT_THAT(shards_->Push(gradient_, FetchMarks()).status(),
                testing::StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
  }

 private:
  const Cluster cluster_;
  const uint32_t task_;
  const std::unique_ptr<ReplicaClient> client_;
  uint64_t incarnation_ = 0;
  uint64_t term_ = 0;
  Assignment assignment_;
  std::unique_ptr<ParameterClient> shards_;
  FetchMarks base_;
  StatsCollector stats_;
  std::vector<float> gradient_;
  std::vector<float> parameters_;
};

TEST(ScheduleTest, StalenessSkewAndWidthAreTheKnownValues) {
  TestCluster cluster({.shards = 2, .workers = 4, .started_workers = 0, .lost_after_ms = 60000});
  ASSERT_OK(cluster.Start());
  Actor a(cluster.cluster(), 0), b(cluster.cluster(), 1);
  Actor cut(cluster.cluster(), 2), cut_too(cluster.cluster(), 3);
  for (Actor* actor : {&a, &b, &cut, &cut_too}) actor->Beat();
  ASSERT_OK_AND_ASSIGN(const std::string job, cluster.Submit(SyntheticJob(1000, 1)));
  a.Open();
  b.Open();
  cut.Open(/*cut_shard=*/1);
  cut_too.Open(/*cut_shard=*/1);

  a.Fetch();  // version 0
  b.Fetch();  // version 0
  a.Push();   // 0 behind
  b.Push();   // 1 behind
  b.Push();   // its own push counts: 2 behind
  a.Fetch();  // version 3
  a.Push();   // 0 behind
  b.Push();   // still on version 0, which is 4 behind
  a.Beat();
  b.Beat();
  ASSERT_OK_AND_ASSIGN(JobDescription seen, cluster.Await(job, [](const auto& d) {
    return d.shard_size() == 2 && d.shard(0).version_min() == 5 && d.shard(1).version_min() == 5 &&
           d.shard_skew_now() == 0;
  }));
  EXPECT_THAT(seen.staleness(),
              UnorderedElementsAre(Pair(0, 2), Pair(1, 1), Pair(2, 1), Pair(4, 1)));
  EXPECT_THAT(seen.fetch_width(), UnorderedElementsAre(Pair(0, 3)));
  EXPECT_EQ(seen.counts().fetches(), 3u);
  EXPECT_EQ(seen.counts().pushes(), 5u);

  // Two pushes reach shard 0 only.
  cut.PushInVain();
  a.Fetch();
  cut_too.PushInVain();
  a.Fetch();
  // Before anybody pushes again: a poll may fall between the two shards of a
  // push, and would rightly find 3.
  ASSERT_OK_AND_ASSIGN(seen, cluster.Await(job, [](const auto& d) {
    return d.shard(0).version_min() == 7 && d.shard(1).version_min() == 5 &&
           d.shard_skew_now() == 2;
  }));
  EXPECT_EQ(seen.shard_skew_max(), 2u);
  a.Push();  // on the newest marks of both shards
  a.Beat();
  ASSERT_OK_AND_ASSIGN(seen, cluster.Await(job, [](const auto& d) {
    return d.shard(0).version_min() == 8 && d.shard(1).version_min() == 6 &&
           d.shard_skew_now() == 2;
  }));
  EXPECT_THAT(seen.fetch_width(), UnorderedElementsAre(Pair(0, 3), Pair(1, 1), Pair(2, 1)));
  EXPECT_THAT(seen.staleness(),
              UnorderedElementsAre(Pair(0, 3), Pair(1, 1), Pair(2, 1), Pair(4, 1)));
  EXPECT_EQ(seen.shard(0).version_max(), 8u);
  EXPECT_EQ(seen.shard(1).version_max(), 6u);
}

}  // namespace
}  // namespace monsoon
