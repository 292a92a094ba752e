#include "common/transport/frame/message_budget.h"

#include <memory>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = MessageBudget::Kind;

constexpr uint64_t kDefault = uint64_t{256} << 20;

struct Connection final : MessageBudget::Holder {
  void Granted() override { ++granted; }
  void GiveWay(bool is_stuck) override {
    ++asked;
    stuck = is_stuck;
  }
  int granted = 0;
  int asked = 0;
  bool stuck = false;
};

// A budget with all turns taken by connections that have served a message.
class MessageBudgetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < holders_.size(); ++i) {
      ASSERT_TRUE(budget_.Ask(&holders_[i], Now()));
    }
  }

  absl::Duration Now() const { return absl::Milliseconds(now_ms_); }
  void ServeAll() {
    for (Connection& holder : holders_) {
      ASSERT_TRUE(budget_.NoteBusy(&holder, Now()));
      ASSERT_TRUE(budget_.NoteIdle(&holder, Now()));
    }
  }

  static constexpr uint64_t kTurns = 3;
  MessageBudget budget_{kTurns * kTurnBytes * 4 / 3 + 4};
  std::vector<Connection> holders_{kTurns};
  Connection late_;
  int now_ms_ = 1000;
};

TEST(MessageBudget, TheDefaultServes256Workers) {
  EXPECT_GE(WorkersAdmitted(kDefault, /*connections=*/1), 256u);
  EXPECT_EQ(WorkersAdmitted(kDefault, /*connections=*/4), WorkersAdmitted(kDefault, 1) / 4);
  MessageBudget budget(kDefault);
  // First as many as there may be on its host, then those that are elsewhere.
  int shared = 0;
  while (budget.Connect(Kind::kShared).ok()) {
    ++shared;
  }
  EXPECT_GE(shared, 26);
  for (uint64_t i = 0; i < kStreamsPerWorker * WorkersAdmitted(kDefault, 1); ++i) {
    ASSERT_OK(budget.Connect(Kind::kStream));
  }
  EXPECT_GE(budget.turns(), 8u);
}

TEST(MessageBudget, AlwaysAdmitsOneAndNamesTheBudget) {
  MessageBudget budget(1);
  ASSERT_OK(budget.Connect(Kind::kStream));
  EXPECT_THAT(budget.Connect(Kind::kStream),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("all 1 data streams"), HasSubstr("message_memory_mib"))));
  Connection only;
  EXPECT_TRUE(budget.Ask(&only, absl::ZeroDuration()));
  budget.Leave(&only, absl::ZeroDuration());
  budget.Disconnect(Kind::kStream);
  EXPECT_OK(budget.Connect(Kind::kShared));
}

// Whatever is open and has turns together stays within three quarters.
TEST(MessageBudget, ConnectionsAndTurnsStayWithinThePool) {
  MessageBudget budget(kDefault);
  uint64_t bytes = 0;
  for (int i = 0; i < 300 && budget.Connect(Kind::kStream).ok(); ++i) {
    bytes += kOpenStreamBytes;
  }
  std::vector<Connection> holders(100);
  uint64_t turns = 0;
  while (budget.Ask(&holders[turns], absl::ZeroDuration())) {
    ++turns;
  }
  EXPECT_EQ(turns, budget.turns());
  EXPECT_LE(bytes + turns * kTurnBytes, kDefault / 4 * 3);
  EXPECT_GT(bytes + (turns + 1) * kTurnBytes, kDefault / 4 * 3);
}

TEST_F(MessageBudgetTest, IdleConnectionsGiveWayThoseThatWereIdleLongestFirst) {
  ServeAll();
  EXPECT_FALSE(budget_.Ask(&late_, Now()));
  EXPECT_TRUE(budget_.AwaitWaiting(absl::ZeroDuration()));
  ASSERT_TRUE(budget_.NoteBusy(&holders_[0], Now()));
  ASSERT_TRUE(budget_.NoteIdle(&holders_[0], Now()));  // now idle for the shortest time
  budget_.Tick(Now());
  EXPECT_EQ(holders_[1].asked, 0);  // its turn has only begun
  now_ms_ += 10;
  budget_.Tick(Now());
  EXPECT_EQ(holders_[1].asked, 1);
  EXPECT_EQ(holders_[0].asked + holders_[2].asked, 0);  // one waits
  EXPECT_EQ(late_.granted, 0);
  budget_.Leave(&holders_[1], Now());
  EXPECT_EQ(late_.granted, 1);
  EXPECT_FALSE(budget_.AwaitWaiting(absl::ZeroDuration()));
}

TEST_F(MessageBudgetTest, WhoBecomesIdleWhileOthersWaitLeavesAtOnce) {
  for (Connection& holder : holders_) {
    ASSERT_TRUE(budget_.NoteBusy(&holder, Now()));
  }
  EXPECT_FALSE(budget_.Ask(&late_, Now()));
  now_ms_ += 10;
  EXPECT_FALSE(budget_.NoteIdle(&holders_[2], Now()));
  EXPECT_TRUE(budget_.NoteIdle(&holders_[1], Now()));  // one is enough
  budget_.Leave(&holders_[2], Now());
  EXPECT_EQ(late_.granted, 1);
}

TEST_F(MessageBudgetTest, ATurnWithoutAMessageLastsAWhile) {
  EXPECT_FALSE(budget_.Ask(&late_, Now()));
  now_ms_ += 199;
  budget_.Tick(Now());
  EXPECT_EQ(holders_[0].asked, 0);
  now_ms_ += 1;
  budget_.Tick(Now());
  EXPECT_EQ(holders_[0].asked, 1);
}

TEST_F(MessageBudgetTest, NobodyKeepsATurnForEverWhileOthersWait) {
  ServeAll();
  for (Connection& holder : holders_) {
    ASSERT_TRUE(budget_.NoteBusy(&holder, Now()));
  }
  now_ms_ += 1000;
  EXPECT_TRUE(budget_.NoteBusy(&holders_[0], Now()));  // nobody waits
  EXPECT_FALSE(budget_.Ask(&late_, Now()));
  EXPECT_FALSE(budget_.NoteBusy(&holders_[0], Now()));
  budget_.Leave(&holders_[0], Now());
  EXPECT_EQ(late_.granted, 1);
}

TEST_F(MessageBudgetTest, WhoDoesNotGoOnIsStuck) {
  for (Connection& holder : holders_) {
    ASSERT_TRUE(budget_.NoteBusy(&holder, Now()));
  }
  EXPECT_FALSE(budget_.Ask(&late_, Now()));
  now_ms_ += 14'000;
  budget_.NoteProgress(&holders_[0], Now());
  now_ms_ += 1'000;
  budget_.Tick(Now());
  EXPECT_EQ(holders_[0].asked, 0);
  EXPECT_EQ(holders_[1].asked, 1);
  EXPECT_TRUE(holders_[1].stuck);
  budget_.Leave(&holders_[1], Now());
  EXPECT_EQ(late_.granted, 1);
}

TEST_F(MessageBudgetTest, TurnsComeInTheOrderOfAsking) {
  Connection later;
  EXPECT_FALSE(budget_.Ask(&late_, Now()));
  EXPECT_FALSE(budget_.Ask(&later, Now()));
  budget_.Leave(&holders_[0], Now());
  EXPECT_EQ(late_.granted, 1);
  EXPECT_EQ(later.granted, 0);
  budget_.Leave(&late_, Now());
  EXPECT_EQ(later.granted, 1);
}

TEST_F(MessageBudgetTest, WhoLeavesTheQueueIsNotGranted) {
  EXPECT_FALSE(budget_.Ask(&late_, Now()));
  budget_.Leave(&late_, Now());
  budget_.Leave(&holders_[0], Now());
  EXPECT_EQ(late_.granted, 0);
}

TEST_F(MessageBudgetTest, WhoEndsIsAskedNoMore) {
  ServeAll();
  budget_.NoteEnding(&holders_[0]);
  EXPECT_FALSE(budget_.Ask(&late_, Now()));
  now_ms_ += 500;
  budget_.Tick(Now());
  // What the ending one gives back is enough.
  EXPECT_EQ(holders_[0].asked + holders_[1].asked + holders_[2].asked, 0);
  budget_.Leave(&holders_[0], Now());
  EXPECT_EQ(late_.granted, 1);
}

TEST_F(MessageBudgetTest, AtTheEndNobodyWaits) {
  EXPECT_FALSE(budget_.Ask(&late_, Now()));
  budget_.Open();
  EXPECT_EQ(late_.granted, 1);
  EXPECT_FALSE(budget_.AwaitWaiting(absl::Hours(1)));
  Connection another;
  EXPECT_TRUE(budget_.Ask(&another, Now()));
}

// A member's many streams keep each other waiting, and nobody else.
TEST_F(MessageBudgetTest, OneMembersStreamsLeaveTheOthersTheirTurns) {
  MessageBudget budget(10 * kTurnBytes * 4 / 3 + 4);
  std::vector<Connection> many(20);
  int granted = 0;
  for (Connection& stream : many) {
    granted += budget.Ask(&stream, Now(), "worker/bad") ? 1 : 0;
  }
  EXPECT_EQ(granted, 5);  // half of all, so that the next member finds some
  Connection push, fetch;
  EXPECT_TRUE(budget.Ask(&push, Now(), "worker/good"));
  EXPECT_TRUE(budget.Ask(&fetch, Now(), "worker/good"));
  for (Connection* stream : {&push, &fetch}) {
    ASSERT_TRUE(budget.NoteBusy(stream, Now()));
    now_ms_ += 2000;
    EXPECT_TRUE(budget.NoteIdle(stream, Now()));
    EXPECT_TRUE(budget.NoteBusy(stream, Now()));
    EXPECT_TRUE(budget.NoteIdle(stream, Now()));
  }
  budget.Tick(Now());
  EXPECT_EQ(push.asked + fetch.asked, 0);
  int asked = 0;
  for (const Connection& stream : many) {
    asked += stream.asked;
  }
  EXPECT_EQ(asked, 5);  // its own others wait
  for (Connection& stream : many) {
    budget.Leave(&stream, Now());
  }
  budget.Leave(&push, Now());
  budget.Leave(&fetch, Now());
}

TEST_F(MessageBudgetTest, TheMemberWithTheFewestTurnsComesFirst) {
  MessageBudget budget(4 * kTurnBytes * 4 / 3 + 4);
  Connection a[2], b[2], late;
  ASSERT_TRUE(budget.Ask(&a[0], Now(), "worker/1"));
  ASSERT_TRUE(budget.Ask(&a[1], Now(), "worker/1"));
  ASSERT_TRUE(budget.Ask(&b[0], Now(), "worker/2"));
  Connection more;
  ASSERT_FALSE(budget.Ask(&more, Now(), "worker/1"));  // it has its share
  ASSERT_TRUE(budget.Ask(&b[1], Now(), ""));           // of no member
  ASSERT_FALSE(budget.Ask(&late, Now(), "worker/3"));
  budget.Leave(&b[0], Now());
  EXPECT_EQ(late.granted, 1);
  EXPECT_EQ(more.granted, 0);
  for (Connection* const stream : {&a[0], &a[1], &b[1], &more, &late}) {
    budget.Leave(stream, Now());
  }
}

TEST(MessageBudget, AMemberHasItsShareOfWhatMayBeOpen) {
  MessageBudget budget(kDefault);
  uint64_t open = 0;
  while (budget.Connect(Kind::kStream, "worker/7").ok()) {
    ++open;
  }
  EXPECT_THAT(budget.Connect(Kind::kStream, "worker/7"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("worker/7 has "), HasSubstr("message_memory_mib"))));
  EXPECT_GE(open, WorkersAdmitted(kDefault, 1));
  for (uint64_t i = 0; i < open / 2; ++i) {
    ASSERT_OK(budget.Connect(Kind::kStream, "worker/8"));
  }
  budget.Disconnect(Kind::kStream, "worker/8");
  EXPECT_OK(budget.Connect(Kind::kStream, "worker/8"));
}

}  // namespace
}  // namespace monsoon
