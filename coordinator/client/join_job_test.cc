#include "coordinator/client/join_job.h"

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/model.pb.h"
#include "proto/wire_format.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Dense 3 -> 5: the weight's 15 floats are padded to 16, so that the bias lies at
// [16, 21) and the vector has 32.
Job MakeJob() {
  Job job;
  job.set_name("small");
  job.mutable_model()->add_input_shape(3);
  job.mutable_model()->add_layer()->mutable_dense()->set_units(5);
  job.mutable_downpour()->set_push_format(TOP_K);
  job.mutable_downpour()->set_fetch_format(BFLOAT16);
  job.mutable_downpour()->set_fetch_changes(INT8);
  job.mutable_downpour()->set_top_k_share(0.25);
  job.mutable_downpour()->set_residual_decay(0.5);
  return job;
}

Assignment MakeAssignment() {
  Assignment assignment;
  assignment.mutable_session()->set_job("small-4");
  assignment.mutable_session()->set_worker(2);
  assignment.mutable_session()->set_incarnation(9);
  *assignment.mutable_job() = MakeJob();
  assignment.set_layout_hash(ParameterLayout::Create(MakeJob().model())->Hash());
  assignment.set_max_stripe_bytes(64);
  assignment.add_shard_address("unix:ps0");
  assignment.add_shard_address("unix:ps1");
  assignment.add_shard_epoch(1000);
  assignment.add_shard_epoch(2000);
  assignment.set_connections(4);
  assignment.set_train_fingerprint(11);
  assignment.set_test_fingerprint(12);
  return assignment;
}

HeartbeatReply Idle() {
  HeartbeatReply reply;
  reply.set_incarnation(9);
  return reply;
}
HeartbeatReply Assigned() {
  HeartbeatReply reply = Idle();
  *reply.mutable_assignment() = MakeAssignment();
  return reply;
}

// Answers heartbeats by script, the last answer again and again; each takes 100 ms
// of `clock`. Knows nothing else.
class FakeReplicaClient : public ReplicaClient {
 public:
  absl::StatusOr<EnterReply> Enter(const EnterRequest&) override {
    return absl::UnimplementedError("Enter");
  }
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request) override {
    requests.push_back(request);
    clock.Advance(absl::Milliseconds(100));
    if (on_heartbeat) on_heartbeat();
    return answers.at(std::min(requests.size(), answers.size()) - 1);
  }
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest&) override {
    return absl::UnimplementedError("NextWork");
  }
  absl::StatusOr<ReportEvaluationReply> ReportEvaluation(const ReportEvaluationRequest&) override {
    return absl::UnimplementedError("ReportEvaluation");
  }
  absl::StatusOr<TakeStreamReply> TakeStream(const TakeStreamRequest&) override {
    return absl::UnimplementedError("TakeStream");
  }
  absl::StatusOr<ClockReply> TellClock(const ClockRequest&) override {
    return absl::UnimplementedError("TellClock");
  }
  absl::StatusOr<ReportFailureReply> ReportFailure(const ReportFailureRequest&) override {
    return absl::UnimplementedError("ReportFailure");
  }

  std::vector<absl::StatusOr<HeartbeatReply>> answers;
  std::function<void()> on_heartbeat;
  std::vector<HeartbeatRequest> requests;
  ManualClock clock;
};

class JoinJobTest : public ::testing::Test {
 protected:
  absl::StatusOr<JoinedJob> Join(absl::Duration deadline = absl::Seconds(1)) {
    return JoinJob(&coordinator_, &membership_,
                   {.deadline = deadline, .clock = &coordinator_.clock, .cancellation = &stop_});
  }

  FakeReplicaClient coordinator_;
  // Beats without a pause, as time is the fake's.
  ReplicaMembership membership_{
      {.cluster = "lab", .task = 2, .pid = 42, .heartbeat = absl::ZeroDuration()}};
  JoinCancellation stop_;
};

TEST(MakeJoinedJobTest, HasAllThatAParameterClientNeeds) {
  ASSERT_OK_AND_ASSIGN(const JoinedJob joined, MakeJoinedJob(MakeAssignment()));
  EXPECT_EQ(joined.session.job(), "small-4");
  EXPECT_EQ(joined.session.worker(), 2u);
  EXPECT_EQ(joined.session.incarnation(), 9u);
  EXPECT_EQ(joined.job.name(), "small");
  EXPECT_EQ(joined.layout.size(), 32u);
  EXPECT_EQ(joined.layout.parameters(), 20u);
  EXPECT_EQ(joined.train_fingerprint, 11u);
  EXPECT_EQ(joined.test_fingerprint, 12u);

  const ParameterClientOptions& client = joined.client_options;
  EXPECT_EQ(client.job, "small-4");
  EXPECT_EQ(client.worker, 2u);
  EXPECT_EQ(client.incarnation, 9u);
  EXPECT_EQ(client.layout_hash, joined.layout.Hash());
  EXPECT_THAT(client.addresses, ElementsAre("unix:ps0", "unix:ps1"));
  EXPECT_THAT(client.shard_epochs, ElementsAre(1000, 2000));
  EXPECT_EQ(client.connections, 4u);
  EXPECT_EQ(client.push_format, TOP_K);
  EXPECT_EQ(client.fetch_format, BFLOAT16);
  EXPECT_EQ(client.fetch_changes, INT8);
  EXPECT_EQ(client.top_k_share, 0.25);
  EXPECT_EQ(client.residual_decay, 0.5);
  EXPECT_FALSE(client.read_only);
  // One stripe of 64 bytes a shard.
  EXPECT_EQ(client.map.shards(), 2u);
  EXPECT_EQ(client.map.stripe_floats(), 16u);
  EXPECT_EQ(client.map.shard(0).begin, 0u);
  EXPECT_EQ(client.map.shard(0).end, 16u);
  EXPECT_EQ(client.map.shard(1).begin, 16u);
  EXPECT_EQ(client.map.shard(1).end, 32u);
  EXPECT_EQ(client.map.stripes(0), 1u);
  EXPECT_OK(ParameterClient::Create(client).status());
}

// Of an earlier build's coordinator.
TEST(MakeJoinedJobTest, HasOneConnectionWhereNoNumberIsTold) {
  Assignment assignment = MakeAssignment();
  assignment.clear_connections();
  ASSERT_OK_AND_ASSIGN(const JoinedJob joined, MakeJoinedJob(assignment));
  EXPECT_EQ(joined.client_options.connections, 1u);
}

TEST(MakeJoinedJobTest, RefusesAnotherLayout) {
  Assignment assignment = MakeAssignment();
  assignment.set_layout_hash(0x1234);
  EXPECT_THAT(MakeJoinedJob(assignment).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("worker/2"), HasSubstr("the coordinator 0000000000001234"),
                             HasSubstr("mixed builds"))));
}

TEST(MakeJoinedJobTest, RefusesShardsThatDoNotFit) {
  Assignment assignment = MakeAssignment();
  assignment.add_shard_epoch(3000);
  EXPECT_THAT(MakeJoinedJob(assignment).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("job small-4 has 2 shard addresses, but 3 epochs")));
  assignment = MakeAssignment();
  assignment.clear_shard_address();
  assignment.clear_shard_epoch();
  EXPECT_EQ(MakeJoinedJob(assignment).status().code(), absl::StatusCode::kInvalidArgument);
  assignment = MakeAssignment();
  assignment.set_max_stripe_bytes(65);
  EXPECT_EQ(MakeJoinedJob(assignment).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(JoinJobTest, BeatsUntilASessionIsAssigned) {
  coordinator_.answers = {absl::UnavailableError("nobody there"), Idle(), Idle(), Assigned()};
  ASSERT_OK_AND_ASSIGN(const JoinedJob joined, Join());
  EXPECT_EQ(joined.session.job(), "small-4");
  ASSERT_EQ(coordinator_.requests.size(), 4u);
  EXPECT_EQ(coordinator_.requests[1].incarnation(), 0u);
  EXPECT_EQ(coordinator_.requests[1].cluster(), "lab");
  EXPECT_EQ(coordinator_.requests[1].task(), 2u);
  EXPECT_EQ(coordinator_.requests[2].incarnation(), 9u);
  // What goes on with the heartbeats is up to date.
  EXPECT_EQ(membership_.incarnation(), 9u);
  EXPECT_TRUE(membership_.Assigned(joined.session));
}

TEST_F(JoinJobTest, AWorkerLostWhileItWaitsJoinsAgain) {
  HeartbeatReply lost;
  lost.set_rejoin(true);
  coordinator_.answers = {Idle(), lost, Assigned()};
  ASSERT_OK(Join().status());
  EXPECT_EQ(coordinator_.requests[1].incarnation(), 9u);
  EXPECT_EQ(coordinator_.requests[2].incarnation(), 0u);
}

TEST_F(JoinJobTest, DoesNotRunAgainWhatWasLeft) {
  coordinator_.answers = {Assigned()};
  ASSERT_OK_AND_ASSIGN(const JoinedJob first, Join());
  membership_.Leave(first.session, /*rejoin=*/false);
  HeartbeatReply next = Assigned();
  next.mutable_assignment()->mutable_session()->set_job("small-5");
  coordinator_.answers = {Assigned(), Assigned(), next};
  ASSERT_OK_AND_ASSIGN(const JoinedJob second, Join());
  EXPECT_EQ(second.session.job(), "small-5");
}

TEST_F(JoinJobTest, SaysThatTheCoordinatorWasNotReached) {
  coordinator_.answers = {absl::UnavailableError("connection refused")};
  EXPECT_THAT(Join().status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("worker/2 of cluster lab waited 1s for the coordinator"),
                             HasSubstr("connection refused"))));
  EXPECT_EQ(coordinator_.requests.size(), 10u);  // of 100 ms each
}

TEST_F(JoinJobTest, SaysThatNoJobWasGiven) {
  coordinator_.answers = {Idle()};
  EXPECT_THAT(Join(absl::Milliseconds(250)).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("worker/2 of cluster lab waited 300ms for a job"),
                             HasSubstr("joined as incarnation 9"))));
  // The member that it has become goes on.
  coordinator_.answers = {Assigned()};
  ASSERT_OK(Join().status());
  EXPECT_EQ(coordinator_.requests.back().incarnation(), 9u);
}

TEST_F(JoinJobTest, IsRefusedForGoodByAnotherCluster) {
  coordinator_.answers = {absl::FailedPreconditionError("the coordinator belongs to \"other\"")};
  EXPECT_THAT(Join().status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        AllOf(HasSubstr("worker/2 of cluster lab was refused"),
                                              HasSubstr("belongs to \"other\""))));
  EXPECT_EQ(coordinator_.requests.size(), 1u);
}

TEST_F(JoinJobTest, WaitsForTheProcessBeforeItToBeMissed) {
  coordinator_.answers = {absl::AlreadyExistsError("worker/2 is running already as pid 41"),
                          Assigned()};
  EXPECT_OK(Join().status());
}

TEST_F(JoinJobTest, EndsWhenItIsCancelled) {
  coordinator_.answers = {Idle()};
  coordinator_.on_heartbeat = [this] { stop_.Cancel(); };
  EXPECT_THAT(Join().status(), StatusIs(absl::StatusCode::kCancelled,
                                        HasSubstr("worker/2 of cluster lab waited 100ms")));
  EXPECT_EQ(coordinator_.requests.size(), 1u);
}

TEST_F(JoinJobTest, ACancellationEndsAPauseBetweenHeartbeats) {
  HeartbeatReply idle = Idle();
  idle.set_heartbeat_ms(24 * 3600 * 1000);
  coordinator_.answers = {idle};
  std::thread canceller;
  coordinator_.on_heartbeat = [&] { canceller = std::thread([this] { stop_.Cancel(); }); };
  EXPECT_EQ(Join(absl::Hours(48)).status().code(), absl::StatusCode::kCancelled);
  canceller.join();
  EXPECT_EQ(coordinator_.requests.size(), 1u);
}

}  // namespace
}  // namespace monsoon
