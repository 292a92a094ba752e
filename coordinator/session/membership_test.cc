#include "coordinator/session/membership.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
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
    const absl::StatusOr<Membership::Heard> heard =
        membership_.Heartbeat(Request(task, incarnation, pid), absl::Seconds(second), 7);
    EXPECT_OK(heard);
    EXPECT_TRUE(!heard.ok() || heard->worker == task);
    return heard.ok() ? heard->outcome : Outcome::kMustRejoin;
  }

  testing::ReplayedState state_;
  Membership membership_{{.cluster = "c", .workers = 3, .lost_after = absl::Seconds(3)},
                         state_.writer()};
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

TEST_F(MembershipTest, SaysWhyAWorkerIsNotReached) {
  HeartbeatRequest request = Request(1, 0, 50);
  request.set_trouble("takes no new\n" + std::string(300, 'x'));
  ASSERT_OK(membership_.Heartbeat(request, absl::Seconds(0), 7).status());
  EXPECT_EQ(membership_.member(1).trouble(), "takes no new\\n" + std::string(242, 'x') + "...")
      << "people's terminals show it";
  EXPECT_THAT(membership_.Tick(absl::Seconds(4)), ElementsAre(1));
  EXPECT_EQ(membership_.member(1).trouble(), "") << "of one that is lost nobody knows";
  Beat(1, 0, 50, 5);
  EXPECT_EQ(membership_.member(1).trouble(), "") << "it is over";
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
  EXPECT_EQ(membership_.Heartbeat(goodbye, absl::Seconds(2), 7)->outcome, Outcome::kLeft);
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

// In containers the first process of each has pid 1, and with host networking one host name.
TEST_F(MembershipTest, ASecondProcessOfTheSamePidIsRefusedByTheNumberThatItDrew) {
  const auto request = [](uint64_t incarnation, uint64_t process, const std::string& host) {
    HeartbeatRequest request = Request(0, incarnation, 1);
    request.set_process(process);
    request.set_host(host);
    return request;
  };
  ASSERT_OK(membership_.Heartbeat(request(0, 100, "attic"), absl::Seconds(0), 0).status());
  for (int second = 1; second < 4; ++second) {
    EXPECT_THAT(membership_.Heartbeat(request(0, 200, "cellar"), absl::Seconds(second), 0).status(),
                StatusIs(absl::StatusCode::kAlreadyExists,
                         AllOf(HasSubstr("worker/0 is running already as pid 1 on attic"),
                               HasSubstr("pid 1 on cellar is refused"))));
    const auto first = membership_.Heartbeat(request(1, 100, "attic"), absl::Seconds(second), 0);
    ASSERT_OK(first.status());
    EXPECT_EQ(first->outcome, Outcome::kRefreshed);
  }
  // The same process, which was expelled or restarted its session, joins again at once.
  const auto again = membership_.Heartbeat(request(0, 100, "attic"), absl::Seconds(4), 0);
  ASSERT_OK(again.status());
  EXPECT_EQ(again->outcome, Outcome::kRejoined);
  EXPECT_EQ(membership_.member(0).host, "attic");
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
  EXPECT_EQ(membership_.Heartbeat(leave, absl::Seconds(1), 0)->outcome, Outcome::kLeft);
  EXPECT_EQ(Beat(0, 0, 51, 1), Outcome::kRejoined);
}

TEST_F(MembershipTest, StrangersAreRefusedByName) {
  HeartbeatRequest request = Request(0, 0, 50);
  for (const uint32_t protocol : {kProtocolVersion - 1, kProtocolVersion + 1}) {
    request.set_protocol_version(protocol);
    EXPECT_THAT(
        membership_.Heartbeat(request, absl::ZeroDuration(), 0).status(),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr(absl::StrCat(
                     "worker/0 (pid 50) speaks protocol version ", protocol, ", the coordinator ",
                     kProtocolVersion, ": update ",
                     protocol < kProtocolVersion ? "the worker" : "the coordinator", ", and"))));
  }
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

TEST_F(MembershipTest, WhatSomebodyHoldsOfALostStateIsGivenToNobody) {
  EXPECT_EQ(Beat(0, 5, 50, 0), Outcome::kMustRejoin);
  EXPECT_EQ(Beat(0, 4, 51, 0), Outcome::kMustRejoin);
  EXPECT_EQ(Beat(0, 0, 52, 0), Outcome::kJoined);
  EXPECT_EQ(membership_.member(0).incarnation, 6u);
  EXPECT_EQ(Beat(0, 0, 52, 0), Outcome::kRejoined);
  EXPECT_EQ(membership_.member(0).incarnation, 7u);
  EXPECT_EQ(Beat(1, 0, 50, 0), Outcome::kJoined);
  EXPECT_EQ(membership_.member(1).incarnation, 1u) << "another task";
  EXPECT_EQ(Beat(2, UINT64_MAX, 50, 0), Outcome::kMustRejoin);
  EXPECT_EQ(Beat(2, 0, 50, 0), Outcome::kJoined);
  EXPECT_EQ(membership_.member(2).incarnation, 1u) << "a number that nobody can have is believed";
}

TEST_F(MembershipTest, AnotherProcessDoesNotGoOnWithAnIncarnation) {
  EXPECT_EQ(Beat(0, 0, 50, 0), Outcome::kJoined);
  EXPECT_EQ(Beat(0, 1, 51, 0), Outcome::kMustRejoin);
  EXPECT_EQ(Beat(0, 1, 50, 0), Outcome::kRefreshed);
  // The next life does not know the process before it was heard.
  Membership next({.cluster = "c", .workers = 3, .lost_after = absl::Seconds(3)}, state_.writer());
  EXPECT_TRUE(next.Expect(0, absl::Seconds(1)));
  const auto outcome = [&next](uint32_t pid) {
    return next.Heartbeat(Request(0, 1, pid), absl::Seconds(1), 7)->outcome;
  };
  EXPECT_EQ(outcome(50), Outcome::kRefreshed);
  EXPECT_EQ(outcome(51), Outcome::kMustRejoin);
}

TEST_F(MembershipTest, AnIncarnationOfAnEarlierTermMustJoinAgain) {
  StateUpdate update;
  update.mutable_term_taken()->set_term(5);
  state_.writer()->Apply(update);
  EXPECT_EQ(Beat(0, 0, 100, 1), Outcome::kJoined);
  HeartbeatRequest request = Request(0, 1, 100);
  request.set_term(4);  // It had incarnation 1 there too.
  EXPECT_EQ(membership_.Heartbeat(request, absl::Seconds(2), 7)->outcome, Outcome::kMustRejoin);
  request.set_term(5);
  EXPECT_EQ(membership_.Heartbeat(request, absl::Seconds(2), 7)->outcome, Outcome::kRefreshed);
}

// ---- members -------------------------------------------------------------------

MemberIdentity MemberOf(const std::string& name, char key) {
  MemberIdentity member;
  member.set_identity("monsoon://c/worker/" + name);
  member.set_key(std::string(32, key));
  return member;
}

TEST_F(MembershipTest, AnIncarnationIsTheMembersThatHasJoinedWithIt) {
  const MemberIdentity first = MemberOf("1", 'a');
  const MemberIdentity later = MemberOf("1", 'b');
  const auto beat = [&](uint64_t incarnation, const MemberIdentity& sender) {
    const absl::StatusOr<Membership::Heard> heard =
        membership_.Heartbeat(Request(1, incarnation, 50), absl::Seconds(1), 7, sender);
    EXPECT_OK(heard);
    return heard.ok() ? heard->outcome : Outcome::kLeft;
  };
  EXPECT_EQ(beat(0, first), Outcome::kJoined);
  EXPECT_EQ(membership_.MemberOf(1).SerializeAsString(), first.SerializeAsString());
  EXPECT_EQ(beat(1, first), Outcome::kRefreshed);
  // The same process goes on as somebody who has joined anew under the name: with a new key.
  EXPECT_EQ(beat(1, later), Outcome::kMustRejoin);
  EXPECT_EQ(membership_.MemberOf(1).SerializeAsString(), first.SerializeAsString());
  EXPECT_EQ(beat(0, later), Outcome::kRejoined);
  EXPECT_EQ(membership_.MemberOf(1).SerializeAsString(), later.SerializeAsString());
  EXPECT_EQ(beat(2, later), Outcome::kRefreshed);
  EXPECT_EQ(beat(2, first), Outcome::kMustRejoin);
  // By a Unix socket nobody proves anything, and is this user.
  EXPECT_EQ(beat(2, {}), Outcome::kRefreshed);
  EXPECT_EQ(membership_.MemberOf(1).SerializeAsString(), later.SerializeAsString());
  EXPECT_TRUE(membership_.MemberOf(2).identity().empty());
}

// ---- guests --------------------------------------------------------------------

class GuestsTest : public MembershipTest {
 protected:
  static HeartbeatRequest Guest(uint64_t guest, uint64_t incarnation = 0) {
    HeartbeatRequest request = Request(0, incarnation, 50);
    request.set_guest(guest);
    return request;
  }
  Membership::Heard Beat(const HeartbeatRequest& request, double second = 0) {
    const absl::StatusOr<Membership::Heard> heard =
        open_.Heartbeat(request, absl::Seconds(second), 7);
    EXPECT_OK(heard);
    return heard.ok() ? *heard : Membership::Heard();
  }
  uint32_t Join(uint64_t guest, double second = 0) {
    const Membership::Heard heard = Beat(Guest(guest), second);
    EXPECT_TRUE(heard.outcome == Outcome::kJoined || heard.outcome == Outcome::kRejoined);
    return heard.worker;
  }
  void Leave(uint64_t guest) {
    HeartbeatRequest goodbye = Guest(guest, 1);
    goodbye.set_leaving(true);
    EXPECT_EQ(Beat(goodbye).outcome, Outcome::kLeft);
  }
  Membership::Options Options() {
    return {.cluster = "c",
            .workers = 2,
            .lost_after = absl::Seconds(3),
            .open = true,
            .most_workers = 5,
            .shunned = [this](uint32_t worker, const std::string&) {
              return shunned_.contains(worker);
            }};
  }

  std::set<uint32_t> shunned_;
  Membership open_{Options(), state_.writer()};
};

TEST_F(GuestsTest, GetNumbersAboveTheListedOnesTheLowestThatIsFree) {
  EXPECT_EQ(Join(71), 2u);
  EXPECT_EQ(Join(72), 3u);
  EXPECT_EQ(Join(73), 4u);
  EXPECT_EQ(open_.size(), 5u);
  Leave(72);
  EXPECT_EQ(Join(74), 3u);
  EXPECT_EQ(open_.member(3).incarnation, 2u);  // the number goes on counting
}

TEST_F(GuestsTest, WhoKnowsAGuestsNumberIsNotIt) {
  const auto beat = [&](const HeartbeatRequest& request, const MemberIdentity& sender) {
    return open_.Heartbeat(request, absl::Seconds(1), 7, sender);
  };
  const MemberIdentity guest = MemberOf("beta", 'a');
  const MemberIdentity other = MemberOf("gamma", 'b');
  ASSERT_OK(beat(Guest(71), guest));
  EXPECT_THAT(beat(Guest(71), other), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("")));
  HeartbeatRequest goodbye = Guest(71, 1);
  EXPECT_EQ(beat(goodbye, other)->outcome, Outcome::kMustRejoin);
  goodbye.set_leaving(true);
  EXPECT_EQ(beat(goodbye, other)->outcome, Outcome::kMustRejoin);
  EXPECT_EQ(beat(Guest(71, 1), guest)->outcome, Outcome::kRefreshed);
  // Once it is lost the number is anybody's.
  EXPECT_THAT(open_.Tick(absl::Seconds(9)), ElementsAre(2));
  EXPECT_EQ(beat(Guest(71), other)->outcome, Outcome::kRejoined);
  EXPECT_EQ(open_.MemberOf(2).identity(), other.identity());
}

TEST_F(GuestsTest, AreKnownByTheNumberOfTheirProcess) {
  Join(71);
  Join(72);
  EXPECT_EQ(Beat(Guest(72, 1), 1).outcome, Outcome::kRefreshed);
  EXPECT_EQ(Beat(Guest(72, 1), 1).worker, 3u);
  EXPECT_EQ(Join(72, 1), 3u);  // the answer to its join was lost
  EXPECT_EQ(open_.member(3).incarnation, 2u);
}

TEST_F(GuestsTest, ANumberThatAGuestOfALostStateHoldsGoesOnCounting) {
  HeartbeatRequest held = Guest(79, 4);
  held.set_task(2);
  EXPECT_EQ(Beat(held).outcome, Outcome::kMustRejoin);
  EXPECT_EQ(Join(71), 2u);
  EXPECT_EQ(open_.member(2).incarnation, 5u);
  held.set_task(UINT32_MAX);
  EXPECT_EQ(Beat(held).outcome, Outcome::kMustRejoin);
  held.set_task(0);  // a listed worker's
  EXPECT_EQ(Beat(held).outcome, Outcome::kMustRejoin);
  EXPECT_EQ(Beat(Request(0, 0, 60)).outcome, Outcome::kJoined);
  EXPECT_EQ(open_.member(0).incarnation, 1u);
}

TEST_F(GuestsTest, OneThatWasLostGetsItsNumberBackIfNobodyElseHasIt) {
  Join(71);
  EXPECT_THAT(open_.Tick(absl::Seconds(4)), ElementsAre(2));
  EXPECT_EQ(Beat(Guest(71, 1), 5).outcome, Outcome::kMustRejoin);
  EXPECT_EQ(Join(71, 5), 2u);
  open_.Tick(absl::Seconds(10));
  EXPECT_EQ(Join(72, 10), 2u);
  EXPECT_EQ(Beat(Guest(71, 2), 11).outcome, Outcome::kMustRejoin);
  EXPECT_EQ(Join(71, 11), 3u);
  EXPECT_EQ(Beat(Guest(72, 3), 11).outcome, Outcome::kRefreshed);  // it was not disturbed
}

TEST_F(GuestsTest, NeverGetAListedWorkersNumber) {
  EXPECT_EQ(Join(71), 2u);
  EXPECT_THAT(open_.Heartbeat(Request(2, 0, 60), absl::ZeroDuration(), 7).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("worker/2 is not in the cluster")));
}

TEST_F(GuestsTest, AreRefusedWhereTheClusterIsNotOpenAndWhereItIsFull) {
  EXPECT_THAT(membership_.Heartbeat(Guest(71), absl::ZeroDuration(), 7).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("open: true"), HasSubstr("--task=N"))));
  for (uint64_t guest = 1; guest <= 3; ++guest) {
    Join(guest);
  }
  EXPECT_THAT(open_.Heartbeat(Guest(9), absl::ZeroDuration(), 7).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("its 5 workers")));
}

TEST_F(GuestsTest, OneThatEntersAJobIsThereForThatAlone) {
  Membership::Options options = Options();
  options.open = false;
  Membership closed(options, state_.writer());
  HeartbeatRequest request = Guest(71);
  request.set_enters_job("gpt-1");
  request.set_enters_job_term(5);
  ASSERT_OK_AND_ASSIGN(const Membership::Heard heard,
                       closed.Heartbeat(request, absl::ZeroDuration(), 7));
  EXPECT_EQ(heard.outcome, Outcome::kJoined);
  EXPECT_TRUE(closed.HasEntered(heard.worker, "gpt-1", 5));
  EXPECT_FALSE(closed.HasEntered(heard.worker, "gpt-1", 6));
  EXPECT_FALSE(closed.HasEntered(heard.worker, "gpt-2", 5));
  EXPECT_EQ(closed.Entered(0), nullptr);
  request.set_incarnation(1);
  request.set_term(Guest(71).term());
  EXPECT_EQ(closed.Heartbeat(request, absl::ZeroDuration(), 7)->outcome, Outcome::kRefreshed);
  // To go on to another job it joins again, with another incarnation.
  request.set_enters_job("gpt-2");
  EXPECT_EQ(closed.Heartbeat(request, absl::ZeroDuration(), 7)->outcome, Outcome::kMustRejoin);
  request.set_incarnation(0);
  EXPECT_EQ(closed.Heartbeat(request, absl::ZeroDuration(), 7)->outcome, Outcome::kRejoined);
  EXPECT_TRUE(closed.HasEntered(heard.worker, "gpt-2", 5));
  // The next life counts on it, too.
  EXPECT_TRUE(closed.Expect(heard.worker, absl::ZeroDuration()));
}

TEST_F(GuestsTest, AListedWorkerEntersNothing) {
  HeartbeatRequest request = Request(0, 0, 60);
  request.set_enters_job("gpt-1");
  EXPECT_THAT(membership_.Heartbeat(request, absl::ZeroDuration(), 7).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot enter a job")));
}

TEST_F(GuestsTest, AShunnedNumberIsPassedOver) {
  shunned_ = {2};
  EXPECT_EQ(Join(71), 3u);
}

TEST_F(GuestsTest, GoodbyeOfOneThatNobodyKnowsIsNothing) {
  HeartbeatRequest goodbye = Guest(71, 4);
  goodbye.set_leaving(true);
  EXPECT_EQ(Beat(goodbye).outcome, Outcome::kMustRejoin);
  EXPECT_EQ(open_.size(), 2u);
}

TEST_F(GuestsTest, TheHostsNameIsMadePrintable) {
  HeartbeatRequest request = Guest(71);
  request.set_host(std::string("pc\x1b[2J ") + std::string(100, 'x'));
  Beat(request);
  EXPECT_EQ(open_.member(2).host, "pc\\x1b[2J " + std::string(100, 'x'));
}

TEST_F(GuestsTest, TheNextLifeOfTheCoordinatorExpectsThemIfItIsOpen) {
  Join(71);
  Membership next(Options(), state_.writer());
  EXPECT_TRUE(next.Expect(2, absl::Seconds(1)));
  EXPECT_TRUE(next.up(2));
  EXPECT_EQ(next.Heartbeat(Guest(71, 1), absl::Seconds(2), 7)->outcome, Outcome::kRefreshed);
  EXPECT_EQ(next.Heartbeat(Guest(72), absl::Seconds(2), 7)->worker, 3u);
  EXPECT_FALSE(next.Expect(4, absl::Seconds(2)));  // never there

  Membership::Options closed = Options();
  closed.open = false;
  Membership after(closed, state_.writer());
  EXPECT_FALSE(after.Expect(2, absl::Seconds(1)));
}

}  // namespace
}  // namespace monsoon
