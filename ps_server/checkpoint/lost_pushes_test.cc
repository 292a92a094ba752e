// What a restored slice tells of pushes that were acknowledged and are lost.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/checkpoint/keeper_fixture.h"
#include "ps_server/checkpoint/marks_folder.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LostPushesTest : public CheckpointKeeperTest {
 protected:
  LostPushesTest() { NextLife("boot-1"); }

  void NextLife(const std::string& boot) {
    keeper_.reset();
    shard_.reset();
    marks_ = std::make_unique<MarksFolder>(
        absl::StrCat(::testing::TempDir(), "/",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name()),
        boot);
    Restart();
  }

  void PushAndWrite(uint64_t generation) {
    Push();
    Push();
    Write(shard_->FindJob("a-1", 3), generation);
  }

  // "worker#incarnation: from-to, records", or "from-, at least ...".
  std::vector<std::string> Restore(const std::vector<SessionKey>& sessions) {
    RestoreShardJobRequest request;
    *request.mutable_create() = MakeCreate("a-1");
    for (const SessionKey& session : sessions) {
      *request.add_session() = session;
    }
    const absl::StatusOr<RestoreShardJobReply> reply = keeper_->Restore(shard_.get(), request);
    EXPECT_OK(reply);
    std::vector<std::string> lines;
    for (const LostPushes& lost : reply->lost()) {
      EXPECT_EQ(lost.shard(), 0u);
      lines.push_back(absl::StrCat(
          lost.worker(), "#", lost.incarnation(), ": ", lost.from(), "-",
          lost.has_to() ? absl::StrCat(lost.to()) : absl::StrCat(", at least ", lost.to_at_least()),
          ", ", lost.records()));
    }
    return lines;
  }
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

}  // namespace
}  // namespace monsoon
