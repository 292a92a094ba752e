// What a restored slice tells of pushes that were acknowledged and are lost.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/downpour.pb.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/checkpoint/keeper_fixture.h"
#include "ps_server/checkpoint/marks_folder.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LostPushesTest : public CheckpointKeeperTest {
 protected:
  LostPushesTest() { NextLife("boot-1"); }

  void NextLife(const std::string& boot) {
    keeper_.reset();
    shard_.reset();
    marks_ = std::make_unique<MarksFolder>(
        absl::StrCat(::testing::TempDir(), "/",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name(), folder_),
        boot);
    Restart();
  }
  // The power fails, and takes all marks along.
  void NextLifeWithoutMarks() {
    folder_ += "+";
    NextLife("boot-2");
  }
  // The coordinator says that a session has left, and how much it had pushed.
  void TellLeft(const SessionKey& session, uint64_t pushes) {
    LeftSession* const left = &left_.emplace_back();
    left->set_worker(session.worker());
    left->set_incarnation(session.incarnation());
    left->set_pushes(pushes);
  }

  void PushAndWrite(uint64_t generation) {
    Push();
    Push();
    Write(shard_->FindJob("a-1", 3), generation);
  }

  static std::string Text(const LostPushes& lost) {
    EXPECT_EQ(lost.shard(), 0u);
    return absl::StrCat(
        lost.worker(), "#", lost.incarnation(), ": ", lost.from(), "-",
        lost.has_to() ? absl::StrCat(lost.to()) : absl::StrCat(", at least ", lost.to_at_least()),
        ", ", lost.records());
  }
  // What closing the session comes to; "": nothing is lost.
  std::string Close() {
    const absl::StatusOr<CloseSessionReply> reply = shard_->CloseSession(session_);
    EXPECT_OK(reply);
    return reply.ok() && reply->has_lost() ? Text(reply->lost()) : "";
  }
  // "worker#incarnation: from-to, records", or "from-, at least ...".
  std::vector<std::string> Restore(const std::vector<SessionKey>& sessions) {
    RestoreShardJobRequest request;
    *request.mutable_create() = MakeCreate("a-1");
    for (const SessionKey& session : sessions) {
      *request.add_session() = session;
    }
    request.mutable_left()->Assign(left_.begin(), left_.end());
    const absl::StatusOr<RestoreShardJobReply> reply = keeper_->Restore(shard_.get(), request);
    EXPECT_OK(reply);
    std::vector<std::string> lines;
    for (const LostPushes& lost : reply->lost()) {
      lines.push_back(Text(lost));
    }
    return lines;
  }

  std::string folder_;
  std::vector<LeftSession> left_;
};

TEST_F(LostPushesTest, OfASessionThatWasClosedBeforeItsPushesWereWritten) {
  MakeJob("a-1");
  PushAndWrite(1);
  PushAndWrite(2);
  Push();
  Push();
  Push(2);  // to the first two of four stripes
  ASSERT_OK(shard_->CloseSession(session_));
  NextLife("boot-1");
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 5-7, 10"));
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 5-7, 10"));  // the answer may have been lost
  // And so may this life, before the generations that are kept hold the close.
  NextLife("boot-1");
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 5-7, 10"));
  const auto write = [&](uint64_t generation) { Write(shard_->FindJob("a-1", 3), generation); };
  write(3);
  write(4);
  NextLife("boot-1");
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 5-7, 10"));
  write(5);
  write(6);
  write(7);
  NextLife("boot-1");
  EXPECT_THAT(Restore({}), IsEmpty());
}

TEST_F(LostPushesTest, OfASessionThatNobodyNames) {
  MakeJob("a-1");
  PushAndWrite(1);
  Push();
  SessionKey other = session_;
  other.set_worker(3);
  ASSERT_OK(shard_->OpenSession(other));
  session_ = other;
  sequence_ = 0;
  Push();
  Push();
  NextLife("boot-1");
  // The part knows nothing of the second.
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 3-3, 4", "3#1: 1-2, 8"));
}

TEST_F(LostPushesTest, NothingIsLostOfASessionThatGoesOn) {
  MakeJob("a-1");
  PushAndWrite(1);
  Push();
  NextLife("boot-1");
  EXPECT_THAT(Restore({session_}), IsEmpty());
  // What it had sent before still counts, until it has sent it again.
  NextLife("boot-1");
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 3-3, 4"));
}

TEST_F(LostPushesTest, NothingIsLostThatAPartHolds) {
  MakeJob("a-1");
  PushAndWrite(1);
  ASSERT_OK(shard_->CloseSession(session_));
  NextLife("boot-1");
  EXPECT_THAT(Restore({}), IsEmpty());
  Write(shard_->FindJob("a-1", 3), 2);
  NextLife("boot-1");
  EXPECT_THAT(Restore({}), IsEmpty());
}

TEST_F(LostPushesTest, AfterAPowerCutTheLeastIsTold) {
  MakeJob("a-1");
  PushAndWrite(1);
  Push();
  NextLife("boot-2");
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 3-, at least 3, 4"));
}

TEST_F(LostPushesTest, ADeletedJobLosesNothing) {
  MakeJob("a-1");
  PushAndWrite(1);
  Push();
  ASSERT_OK(shard_->DeleteJob("a-1", 3));
  ASSERT_OK(keeper_->Delete("a-1", 3));
  MakeJob("a-1");
  Write(shard_->FindJob("a-1", 3), 1);
  NextLife("boot-1");
  EXPECT_THAT(Restore({}), IsEmpty());
}

// The worker died before it had sent everything again.
TEST_F(LostPushesTest, OfASessionThatIsClosedBeforeItHasCaughtUp) {
  MakeJob("a-1");
  PushAndWrite(1);
  Push();
  Push();
  Push();
  NextLife("boot-1");
  EXPECT_THAT(Restore({session_}), IsEmpty());
  sequence_ = 2;
  Push();
  EXPECT_EQ(Close(), "0#1: 4-5, 8");
  EXPECT_EQ(Close(), "0#1: 4-5, 8");  // the answer may have been lost
  NextLife("boot-1");
  // The third one was in no generation either.
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 3-5, 12"));
}

TEST_F(LostPushesTest, NothingOfASessionThatIsClosedAfterIt) {
  MakeJob("a-1");
  PushAndWrite(1);
  Push();
  NextLife("boot-1");
  EXPECT_THAT(Restore({session_}), IsEmpty());
  sequence_ = 2;
  Push();
  Push();
  EXPECT_EQ(Close(), "");
}

// ---- sessions that have left ---------------------------------------------------------

TEST_F(LostPushesTest, OfASessionThatHasLeftAllIsToldThoughThePowerFails) {
  MakeJob("a-1");
  PushAndWrite(1);
  Push();
  Push();
  ASSERT_OK(shard_->CloseSession(session_));
  TellLeft(session_, 4);
  NextLifeWithoutMarks();
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 3-4, 8"));
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 3-4, 8"));  // the answer may have been lost
  NextLifeWithoutMarks();
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 3-4, 8"));
  // What the next parts lack of it is not told as if it were all of it.
  Write(shard_->FindJob("a-1", 3), 2);
  NextLifeWithoutMarks();
  EXPECT_THAT(Restore({}), ElementsAre("0#1: 3-4, 8"));
}

TEST_F(LostPushesTest, OfASessionThatHasLeftAndThatThePartHasNotSeen) {
  MakeJob("a-1");
  PushAndWrite(1);
  SessionKey other = session_;
  other.set_worker(3);
  ASSERT_OK(shard_->OpenSession(other));
  session_ = other;
  sequence_ = 0;
  Push();
  ASSERT_OK(shard_->CloseSession(other));
  TellLeft(other, 1);
  NextLifeWithoutMarks();
  EXPECT_THAT(Restore({}), ElementsAre("3#1: 1-1, 4"));
}

TEST_F(LostPushesTest, NothingOfASessionThatHasLeftAndThatThePartHolds) {
  MakeJob("a-1");
  PushAndWrite(1);
  ASSERT_OK(shard_->CloseSession(session_));
  TellLeft(session_, 2);
  NextLifeWithoutMarks();
  EXPECT_THAT(Restore({}), IsEmpty());
  // So long after the close that parts have no windows of it.
  for (uint64_t generation = 2; generation <= 6; ++generation) {
    Write(shard_->FindJob("a-1", 3), generation);
  }
  NextLifeWithoutMarks();
  EXPECT_THAT(Restore({}), IsEmpty());
}

// The coordinator has not heard its goodbye yet.
TEST_F(LostPushesTest, OfASessionThatHasLeftAndIsClosedAfterTheRestore) {
  MakeJob("a-1");
  PushAndWrite(1);
  Push();
  TellLeft(session_, 3);
  NextLifeWithoutMarks();
  EXPECT_THAT(Restore({session_}), IsEmpty());
  EXPECT_EQ(Close(), "0#1: 3-3, 4");
}

// With two fragments a stripe has every other push.
TEST_F(LostPushesTest, OfASessionThatHasLeftAndPushesInFragments) {
  RestoreShardJobRequest request;
  *request.mutable_create() = MakeCreate("a-1");
  request.mutable_create()->set_written_by_client(false);
  request.mutable_fragments()->set_count(2);
  request.mutable_fragments()->set_order(Fragments::BY_STRIPE);
  TellLeft(session_, 3);
  request.mutable_left()->Assign(left_.begin(), left_.end());
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, keeper_->Restore(shard_.get(), request));
  ASSERT_EQ(reply.lost_size(), 1);
  EXPECT_EQ(Text(reply.lost(0)), "0#0: 1-2, 6");  // two stripes have two, two have one
}

// Blocks count as done whose pushes such a part would lack.
TEST_F(LostPushesTest, NoPartIsMadeBeforeTheSliceHasCaughtUp) {
  MakeJob("a-1");
  PushAndWrite(1);
  Push();
  Push();
  NextLife("boot-1");
  EXPECT_THAT(Restore({session_}), IsEmpty());
  const auto start = [this] { return shard_->StartCheckpoint(OrderOf("a-1", 2)).status(); };
  EXPECT_THAT(start(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("have not sent again")));
  sequence_ = 2;
  Push();
  Push(3);  // to all stripes but one
  EXPECT_THAT(start(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("have not sent again")));
  EXPECT_EQ(Close(), "0#1: 4-4, 1");  // nor will they
  EXPECT_OK(start());
}

TEST_F(LostPushesTest, AfterThatPartsAreMadeAsEver) {
  MakeJob("a-1");
  PushAndWrite(1);
  Push();
  NextLife("boot-1");
  EXPECT_THAT(Restore({session_}), IsEmpty());
  sequence_ = 2;
  Push();
  EXPECT_OK(shard_->StartCheckpoint(OrderOf("a-1", 2)).status());
}

}  // namespace
}  // namespace monsoon
