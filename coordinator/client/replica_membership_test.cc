#include "coordinator/client/replica_membership.h"

#include <string>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

using Outcome = ReplicaMembership::Outcome;

HeartbeatReply Reply(uint64_t incarnation, const std::string& job = "") {
  HeartbeatReply reply;
  reply.set_incarnation(incarnation);
  if (!job.empty()) {
    SessionKey* const session = reply.mutable_assignment()->mutable_session();
    session->set_job(job);
    session->set_worker(3);
    session->set_incarnation(incarnation);
  }
  return reply;
}

class ReplicaMembershipTest : public ::testing::Test {
 protected:
  Outcome Beat(const HeartbeatReply& reply) {
    return membership_.Apply(membership_.MakeRequest(), reply);
  }

  ReplicaMembership membership_{{.cluster = "lab", .task = 3, .pid = 42, .threads = 8}};
};

TEST_F(ReplicaMembershipTest, JoinsWithZeroThenSpeaksForItsIncarnation) {
  const HeartbeatRequest first = membership_.MakeRequest();
  EXPECT_EQ(first.protocol_version(), 9u);
  EXPECT_EQ(first.cluster(), "lab");
  EXPECT_EQ(first.task(), 3u);
  EXPECT_EQ(first.incarnation(), 0u);
  EXPECT_EQ(first.pid(), 42u);
  EXPECT_EQ(first.device(), "CPU");
  EXPECT_EQ(first.threads(), 8u);
  EXPECT_FALSE(first.has_session());
  EXPECT_EQ(membership_.Name(), "worker/3 of cluster lab");
  EXPECT_EQ(Beat(Reply(7)), Outcome::kJoined);
  EXPECT_EQ(membership_.MakeRequest().incarnation(), 7u);
  EXPECT_EQ(Beat(Reply(7)), Outcome::kMember);
  EXPECT_EQ(membership_.assignment(), nullptr);
}

TEST_F(ReplicaMembershipTest, TheCoordinatorSaysHowOftenToBeat) {
  EXPECT_EQ(membership_.heartbeat(), absl::Milliseconds(500));
  HeartbeatReply reply = Reply(1);
  reply.set_heartbeat_ms(250);
  Beat(reply);
  EXPECT_EQ(membership_.heartbeat(), absl::Milliseconds(250));
  Beat(Reply(1));  // says nothing of it
  EXPECT_EQ(membership_.heartbeat(), absl::Milliseconds(250));
}

TEST_F(ReplicaMembershipTest, AnAssignmentStandsUntilItIsTakenAway) {
  Beat(Reply(1, "a-1"));
  ASSERT_NE(membership_.assignment(), nullptr);
  const SessionKey session = membership_.assignment()->session();
  EXPECT_TRUE(membership_.Assigned(session));
  Beat(Reply(1));
  EXPECT_EQ(membership_.assignment(), nullptr);
  EXPECT_FALSE(membership_.Assigned(session));
}

TEST_F(ReplicaMembershipTest, ASessionLeftIsNotRunAgain) {
  Beat(Reply(1, "a-1"));
  const SessionKey left = membership_.assignment()->session();
  membership_.Leave(left, /*rejoin=*/false);
  EXPECT_EQ(membership_.assignment(), nullptr);
  EXPECT_TRUE(membership_.Assigned(left));  // the coordinator does not know yet
  Beat(Reply(1, "b-2"));
  ASSERT_NE(membership_.assignment(), nullptr);
  EXPECT_EQ(membership_.assignment()->session().job(), "b-2");
}

TEST_F(ReplicaMembershipTest, ALostSessionIsRunByTheNextIncarnation) {
  Beat(Reply(1, "a-1"));
  const HeartbeatRequest before = membership_.MakeRequest();
  membership_.Leave(membership_.assignment()->session(), /*rejoin=*/true);
  EXPECT_EQ(membership_.incarnation(), 0u);
  // An answer on its way speaks of the old incarnation.
  EXPECT_EQ(membership_.Apply(before, Reply(1, "a-1")), Outcome::kStale);
  EXPECT_EQ(membership_.assignment(), nullptr);
  EXPECT_EQ(Beat(Reply(2, "a-1")), Outcome::kJoined);
  ASSERT_NE(membership_.assignment(), nullptr);
  EXPECT_EQ(membership_.assignment()->session().incarnation(), 2u);
}

TEST_F(ReplicaMembershipTest, AWorkerThatWasLostForgetsEverything) {
  Beat(Reply(4, "a-1"));
  HeartbeatReply lost;
  lost.set_rejoin(true);
  EXPECT_EQ(Beat(lost), Outcome::kRejoin);
  EXPECT_EQ(membership_.assignment(), nullptr);
  EXPECT_EQ(membership_.MakeRequest().incarnation(), 0u);
}

TEST(EnteredMembershipTest, SpeaksOfItsJobAndLearnsThatItHasEnded) {
  ReplicaMembership membership(
      {.cluster = "lab", .guest = 7, .enters_job = "gpt-1", .enters_job_term = 5});
  EXPECT_EQ(membership.MakeRequest().enters_job(), "gpt-1");
  EXPECT_EQ(membership.MakeRequest().enters_job_term(), 5u);
  HeartbeatReply reply = Reply(7, "gpt-1");
  reply.set_task(4);
  reply.set_replicas(3);
  reply.set_local_steps(25);
  EXPECT_EQ(membership.Apply(membership.MakeRequest(), reply), Outcome::kJoined);
  EXPECT_EQ(membership.replicas(), 3u);
  EXPECT_EQ(membership.local_steps(), 25u);
  EXPECT_FALSE(membership.job_end().has_value());
  reply.set_job_ended(CANCELLED);
  reply.set_job_reason("cancelled by a user");
  reply.clear_assignment();
  EXPECT_EQ(membership.Apply(membership.MakeRequest(), reply), Outcome::kMember);
  ASSERT_TRUE(membership.job_end().has_value());
  EXPECT_EQ(membership.job_end()->state, CANCELLED);
  EXPECT_EQ(membership.job_end()->reason, "cancelled by a user");
  // One that came too late is not made a member, and has no number.
  ReplicaMembership late({.cluster = "lab", .guest = 8, .enters_job = "gpt-1"});
  HeartbeatReply refused;
  refused.set_job_ended(SUCCEEDED);
  EXPECT_EQ(late.Apply(late.MakeRequest(), refused), Outcome::kMember);
  EXPECT_EQ(late.incarnation(), 0u);
  EXPECT_EQ(late.job_end()->state, SUCCEEDED);
}

}  // namespace
}  // namespace monsoon
