#include "coordinator/session/membership.h"

#include "common/testing/status_matchers.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Outcome = Membership::Outcome;

class MembershipTest : public ::testing::Test {
 protected:
  static HeartbeatRequest Request(uint32_t task, uint64_t incarnation, uint32_t pid) {
    HeartbeatRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_cluster("c");
    request.set_task(task);
    request.set_incarnation(incarnation);
    request.set_pid(pid);
    return request;
  }
  Outcome Beat(uint32_t task, uint64_t incarnation, uint32_t pid, double second) {
    absl::StatusOr<Outcome> outcome =
        membership_.Heartbeat(Request(task, incarnation, pid), absl::Seconds(second), 7);
    EXPECT_OK(outcome);
    return *outcome;
  }

  testing::ReplayedState state_;
  Membership membership_{{"c", 3, absl::Seconds(3)}, state_.writer()};
};

TEST_F(MembershipTest, JoinBeatLoseRejoin) {
  EXPECT_EQ(Beat(1, 0, 50, 0), Outcome::kJoined);
  EXPECT_EQ(membership_.member(1).incarnation, 1u);
  EXPECT_EQ(Beat(1, 1, 50, 2), Outcome::kRefreshed);
  EXPECT_THAT(membership_.Tick(absl::Seconds(5)), IsEmpty());
  EXPECT_THAT(membership_.Tick(absl::Seconds(5.001)), ElementsAre(1));
  EXPECT_THAT(membership_.Tick(absl::Seconds(6)), IsEmpty());  // Once only.
  EXPECT_FALSE(membership_.up(1));
  EXPECT_EQ(Beat(1, 1, 50, 7), Outcome::kMustRejoin);
  EXPECT_FALSE(membership_.up(1));
  EXPECT_EQ(Beat(1, 0, 50, 8), Outcome::kRejoined);
  EXPECT_EQ(membership_.member(1).incarnation, 2u);
  EXPECT_EQ(Beat(1, 1, 50, 8), Outcome::kMustRejoin);
}

TEST_F(MembershipTest, OneThatIsDrainedLeavesAndMayComeBack) {
  Beat(1, 0, 50, 0);
  EXPECT_FALSE(membership_.draining(1));
  EXPECT_OK(membership_.Drain(1));
  EXPECT_OK(membership_.Drain(1));  // Safe to repeat.
  EXPECT_TRUE(membership_.draining(1));
  EXPECT_EQ(Beat(1, 1, 50, 1), Outcome::kRefreshed);
  EXPECT_TRUE(membership_.draining(1));
  HeartbeatRequest goodbye = Request(1, 1, 50);
  goodbye.set_leaving(true);
  EXPECT_EQ(*membership_.Heartbeat(goodbye, absl::Seconds(2), 7), Outcome::kLeft);
  EXPECT_FALSE(membership_.draining(1));
  EXPECT_THAT(membership_.Drain(1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("worker/1 is not there")));
  EXPECT_EQ(Beat(1, 0, 51, 3), Outcome::kRejoined);
  EXPECT_FALSE(membership_.draining(1));
}

TEST_F(MembershipTest, OnlyAWorkerThatIsThereIsDrained) {
  EXPECT_THAT(membership_.Drain(3),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("worker/3 is not in the cluster")));
  EXPECT_THAT(membership_.Drain(0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("worker/0 is not there")));
}

TEST_F(MembershipTest, SecondProcessIsRefusedByPidUntilTheFirstIsLost) {
  Beat(0, 0, 50, 0);
  EXPECT_THAT(membership_.Heartbeat(Request(0, 0, 51), absl::Seconds(1), 0).status(),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("worker/0"), HasSubstr("pid 50"), HasSubstr("pid 51"))));
  EXPECT_EQ(Beat(0, 1, 50, 1), Outcome::kRefreshed);
  membership_.Tick(absl::Seconds(10));
  EXPECT_EQ(Beat(0, 0, 51, 10), Outcome::kRejoined);
  EXPECT_THAT(membership_.Heartbeat(Request(0, 0, 50), absl::Seconds(10), 0).status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("pid 51")));
}

TEST_F(MembershipTest, AJoinWhoseAnswerWasLostIsANewIncarnation) {
  EXPECT_EQ(Beat(0, 0, 50, 0), Outcome::kJoined);
  EXPECT_EQ(Beat(0, 0, 50, 0.1), Outcome::kRejoined);
  EXPECT_EQ(membership_.member(0).incarnation, 2u);
}

TEST_F(MembershipTest, LeavingFreesTheTask) {
  Beat(0, 0, 50, 0);
  HeartbeatRequest leave = Request(0, 1, 50);
  leave.set_leaving(true);
  EXPECT_EQ(*membership_.Heartbeat(leave, absl::Seconds(1), 0), Outcome::kLeft);
  EXPECT_EQ(Beat(0, 0, 51, 1), Outcome::kRejoined);
}

TEST_F(MembershipTest, StrangersAreRefusedByName) {
  HeartbeatRequest request = Request(0, 0, 50);
  request.set_protocol_version(kProtocolVersion + 1);
  EXPECT_THAT(membership_.Heartbeat(request, absl::ZeroDuration(), 0).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("protocol version 2")));
  request = Request(0, 0, 50);
  request.set_cluster("other");
  EXPECT_THAT(membership_.Heartbeat(request, absl::ZeroDuration(), 0).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("\"other\"")));
  EXPECT_THAT(membership_.Heartbeat(Request(3, 0, 50), absl::ZeroDuration(), 0).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("worker/3")));
}

TEST_F(MembershipTest, ANewCoordinatorAsksOldMembersToJoin) {
  EXPECT_EQ(Beat(0, 5, 50, 0), Outcome::kMustRejoin);
  EXPECT_EQ(Beat(0, 0, 50, 0), Outcome::kJoined);
}

TEST_F(MembershipTest, AnIncarnationOfAnEarlierTermMustJoinAgain) {
  StateUpdate update;
  update.mutable_term_taken()->set_term(5);
  state_.writer()->Apply(update);
  EXPECT_EQ(Beat(0, 0, 100, 1), Outcome::kJoined);
  HeartbeatRequest request = Request(0, 1, 100);
  request.set_term(4);  // It had incarnation 1 there too.
  EXPECT_EQ(*membership_.Heartbeat(request, absl::Seconds(2), 7), Outcome::kMustRejoin);
  request.set_term(5);
  EXPECT_EQ(*membership_.Heartbeat(request, absl::Seconds(2), 7), Outcome::kRefreshed);
}

}  // namespace
}  // namespace monsoon
