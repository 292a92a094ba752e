#include "coordinator/session/session_ledger.h"

#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Property;
using ::testing::SizeIs;
using Kind = ShardCommand::Kind;

constexpr absl::Duration kNow = absl::Seconds(1);

class SessionLedgerTest : public ::testing::Test {
 protected:
  void OpenFully(uint32_t worker, uint64_t incarnation) {
    ledger_.Open(worker, incarnation);
    for (const ShardCommand& command : ledger_.Due(kNow)) {
      EXPECT_EQ(command.kind, Kind::kOpenSession);
      ledger_.OnResult(command, {absl::OkStatus()}, kNow);
    }
    EXPECT_THAT(ledger_.TakeChanges().opened, ElementsAre(worker));
  }

  testing::ReplayedState state_;
  SessionLedger ledger_{state_.Job("j-1"), 2};
};

TEST_F(SessionLedgerTest, OpensOnEveryShardFirst) {
  ledger_.Open(3, 2);
  const auto commands = ledger_.Due(kNow);
  ASSERT_THAT(commands, SizeIs(2));
  EXPECT_EQ(commands[1].shard, 1u);
  EXPECT_EQ(commands[1].session.job(), "j-1");
  EXPECT_EQ(commands[1].session.worker(), 3u);
  EXPECT_EQ(commands[1].session.incarnation(), 2u);
  ledger_.OnResult(commands[1], {absl::OkStatus()}, kNow);
  EXPECT_THAT(ledger_.TakeChanges().opened, IsEmpty());
  EXPECT_FALSE(ledger_.IsOpen(commands[0].session));
  ledger_.OnResult(commands[0], {absl::OkStatus()}, kNow);
  EXPECT_THAT(ledger_.TakeChanges().opened, ElementsAre(3));
  EXPECT_TRUE(ledger_.IsOpen(commands[0].session));
  SessionKey older = commands[0].session;
  older.set_incarnation(1);
  EXPECT_FALSE(ledger_.IsOpen(older));
}

TEST_F(SessionLedgerTest, ASessionIsItsMembersFromItsBeginningToItsEnd) {
  MemberIdentity member;
  member.set_identity("monsoon://c/worker/3");
  member.set_key(std::string(32, 'a'));
  ledger_.Open(3, 2, member);
  for (const ShardCommand& command : ledger_.Due(kNow)) {
    EXPECT_EQ(command.member.SerializeAsString(), member.SerializeAsString());
    ledger_.OnResult(command, {absl::OkStatus()}, kNow);
  }
  ledger_.TakeChanges();
  EXPECT_EQ(ledger_.Find(3)->state(), DurableSession::OPEN);
  EXPECT_EQ(ledger_.Find(3)->member().SerializeAsString(), member.SerializeAsString());
  ledger_.Close(3);
  EXPECT_EQ(ledger_.Find(3)->member().SerializeAsString(), member.SerializeAsString());
}

TEST_F(SessionLedgerTest, ASessionOfAnEarlierLifeIsOpenedAsItsMembers) {
  MemberIdentity member;
  member.set_identity("monsoon://c/worker/3");
  member.set_key(std::string(32, 'a'));
  ledger_.Open(3, 2, member);
  SessionLedger next(state_.Job("j-1"), 2);
  const auto commands = next.Due(kNow);
  ASSERT_THAT(commands, SizeIs(2));
  EXPECT_EQ(commands[1].member.SerializeAsString(), member.SerializeAsString());
}

TEST_F(SessionLedgerTest, ClosedOnlyAfterEveryShardSaidSo) {
  OpenFully(0, 1);
  ledger_.Close(0);
  const auto commands = ledger_.Due(kNow);
  ASSERT_THAT(commands, SizeIs(2));
  EXPECT_EQ(commands[0].kind, Kind::kCloseSession);
  EXPECT_FALSE(ledger_.IsOpen(commands[0].session));
  ledger_.OnResult(commands[0], {absl::OkStatus()}, kNow);
  ledger_.OnResult(commands[1], {absl::DeadlineExceededError("slow")}, kNow);
  EXPECT_THAT(ledger_.TakeChanges().closed, IsEmpty());
  const auto again = ledger_.Due(kNow + kCommandRetry);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].shard, 1u);
  ledger_.OnResult(again[0], {absl::OkStatus()}, kNow);
  EXPECT_THAT(ledger_.TakeChanges().closed, ElementsAre(Property(&DurableSession::worker, 0u)));
  EXPECT_EQ(ledger_.Find(0), nullptr);
}

TEST_F(SessionLedgerTest, AGoneShardNeedsNoClosing) {
  OpenFully(0, 1);
  ledger_.SkipShard(1);
  ledger_.Close(0);
  const auto commands = ledger_.Due(kNow);
  ASSERT_THAT(commands, SizeIs(1));
  ledger_.OnResult(commands[0], {absl::NotFoundError("no such session")}, kNow);
  EXPECT_THAT(ledger_.TakeChanges().closed, ElementsAre(Property(&DurableSession::worker, 0u)));
}

TEST_F(SessionLedgerTest, AShardThatIsHeldBackIsToldLater) {
  OpenFully(0, 1);
  ledger_.HoldBack(1, true);
  ledger_.Close(0);
  const auto commands = ledger_.Due(kNow);
  ASSERT_THAT(commands, SizeIs(1));
  EXPECT_EQ(commands[0].shard, 0u);
  ledger_.OnResult(commands[0], {absl::OkStatus()}, kNow);
  EXPECT_THAT(ledger_.TakeChanges().closed, IsEmpty());
  ledger_.HoldBack(1, false);
  const auto later = ledger_.Due(kNow);
  ASSERT_THAT(later, SizeIs(1));
  EXPECT_EQ(later[0].shard, 1u);
  ledger_.OnResult(later[0], {absl::OkStatus()}, kNow);
  EXPECT_THAT(ledger_.TakeChanges().closed, ElementsAre(Property(&DurableSession::worker, 0u)));
}

TEST_F(SessionLedgerTest, LateAnswersToTheOpeningDoNotClose) {
  ledger_.Open(0, 1);
  const auto open = ledger_.Due(kNow);
  ledger_.Close(0);
  ledger_.OnResult(open[0], {absl::OkStatus()}, kNow);
  ledger_.OnResult(open[1], {absl::OkStatus()}, kNow);
  const auto changes = ledger_.TakeChanges();
  EXPECT_THAT(changes.opened, IsEmpty());
  EXPECT_THAT(changes.closed, IsEmpty());
}

TEST_F(SessionLedgerTest, RefusedSessionsAreClosed) {
  ledger_.Open(0, 1);
  const auto open = ledger_.Due(kNow);
  ledger_.OnResult(open[0], {absl::OkStatus()}, kNow);
  ledger_.OnResult(open[1], {absl::FailedPreconditionError("newer")}, kNow);
  const auto changes = ledger_.TakeChanges();
  ASSERT_THAT(changes.refused, SizeIs(1));
  EXPECT_EQ(changes.refused[0].second.message(), "newer");
  for (const ShardCommand& command : ledger_.Due(kNow)) {
    EXPECT_EQ(command.kind, Kind::kCloseSession);
    ledger_.OnResult(command, {absl::OkStatus()}, kNow);
  }
  EXPECT_THAT(ledger_.TakeChanges().closed, ElementsAre(Property(&DurableSession::worker, 0u)));
}

// No worker may push before its session is open everywhere, so records of one that is
// only being opened are another's.
TEST_F(SessionLedgerTest, ASessionThatHasPushedBeforeItWasOpenIsRefused) {
  ledger_.Open(3, 1);
  const auto open = ledger_.Due(kNow);
  ledger_.OnResult(open[0], {absl::OkStatus()}, kNow);
  ledger_.OnResult(open[1], {.status = absl::OkStatus(), .session_applied = 4}, kNow);
  const SessionLedger::Changes changes = ledger_.TakeChanges();
  EXPECT_TRUE(changes.opened.empty());
  ASSERT_EQ(changes.refused.size(), 1u);
  EXPECT_THAT(std::string(changes.refused[0].second.message()),
              ::testing::HasSubstr("ps/1 has 4 records"));
}

}  // namespace
}  // namespace monsoon
