// What a restored slice tells of rows that were acknowledged and are lost.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "ps_server/checkpoint/marks_folder.h"
#include "ps_server/checkpoint/rows_keeper_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LostRowsTest : public RowsKeeperTest {
 protected:
  LostRowsTest() { NextLife("boot-1"); }

  void NextLife(const std::string& boot) {
    keeper_.reset();
    shard_.reset();
    marks_ = std::make_unique<MarksFolder>(
        absl::StrCat(::testing::TempDir(), "/rows_",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name()),
        boot);
    Restart();
  }
  void Rows(uint64_t push, bool last = true, uint32_t worker = 0) {
    ASSERT_EQ(PushRows({.push = push, .last = last, .parts = {{1, {0}}}, .worker = worker}),
              APPLIED);
  }
  // Two pushes of rows and records, and a part.
  void PushAndWrite() {
    MakeRowsJob();
    for (uint64_t push = 1; push <= 2; ++push) {
      Rows(push);
      Push();
    }
    Write(Job(), 1);
  }
  static std::string Text(const LostPushes& lost) {
    return absl::StrCat(
        lost.worker(), "#", lost.incarnation(), ": ", lost.from(), "-",
        lost.has_to() ? absl::StrCat(lost.to()) : absl::StrCat(", at least ", lost.to_at_least()),
        ", ", lost.records(), ", rows of ", lost.row_pushes());
  }
  std::string Close() {
    const absl::StatusOr<CloseSessionReply> reply = shard_->CloseSession(SessionOf(0));
    EXPECT_OK(reply);
    return reply.ok() && reply->has_lost() ? Text(reply->lost()) : "";
  }
  std::vector<std::string> Lost(const std::vector<uint32_t>& workers) {
    const absl::StatusOr<RestoreShardJobReply> reply = Restore(workers);
    EXPECT_OK(reply);
    std::vector<std::string> lines;
    if (reply.ok()) {
      for (const LostPushes& lost : reply->lost()) lines.push_back(Text(lost));
    }
    return lines;
  }
};

TEST_F(LostRowsTest, OfASessionThatNobodyNames) {
  PushAndWrite();
  Rows(3);
  Push();
  Rows(4);
  Rows(5);
  ASSERT_EQ(PushRows({.push = 6, .last = false, .parts = {{1, {0}}}, .worker = 0}), APPLIED);
  NextLife("boot-1");
  // The sixth was not whole; records came of the third alone.
  EXPECT_THAT(Lost({}), ElementsAre("0#1: 3-5, 4, rows of 3"));
  EXPECT_THAT(Lost({}), ElementsAre("0#1: 3-5, 4, rows of 3"));
  NextLife("boot-1");
  EXPECT_THAT(Lost({}), ElementsAre("0#1: 3-5, 4, rows of 3"));
  for (uint64_t generation = 2; generation <= 6; ++generation) Write(Job(), generation);
  NextLife("boot-1");
  EXPECT_THAT(Lost({}), IsEmpty());
}

TEST_F(LostRowsTest, OfASessionThatWasClosed) {
  PushAndWrite();
  Rows(3);
  EXPECT_EQ(Close(), "");
  NextLife("boot-1");
  EXPECT_THAT(Lost({}), ElementsAre("0#1: 3-3, 0, rows of 1"));
}

TEST_F(LostRowsTest, OfASessionOfWhichNoPartKnows) {
  PushAndWrite();
  ASSERT_OK(shard_->OpenSession(SessionOf(3)));
  Rows(1, true, 3);
  Rows(2, true, 3);
  NextLife("boot-1");
  EXPECT_THAT(Lost({0}), ElementsAre("3#1: 1-2, 0, rows of 2"));
}

TEST_F(LostRowsTest, NothingThatAPartHolds) {
  PushAndWrite();
  EXPECT_EQ(Close(), "");
  NextLife("boot-1");
  EXPECT_THAT(Lost({}), IsEmpty());
  // Nor after a part of the next life.
  Write(Job(), 2);
  NextLife("boot-1");
  EXPECT_THAT(Lost({}), IsEmpty());
}

TEST_F(LostRowsTest, AfterAPowerCutTheLeastIsTold) {
  PushAndWrite();
  Rows(3);
  NextLife("boot-2");
  EXPECT_THAT(Lost({}), ElementsAre("0#1: 3-, at least 3, 0, rows of 1"));
}

TEST_F(LostRowsTest, OfASessionThatIsClosedBeforeItHasCaughtUp) {
  PushAndWrite();
  Rows(3);
  Rows(4);
  Rows(5);
  NextLife("boot-1");
  EXPECT_THAT(Lost({0}), IsEmpty());
  Rows(3);
  EXPECT_EQ(Close(), "0#1: 4-5, 0, rows of 2");
  EXPECT_EQ(Close(), "0#1: 4-5, 0, rows of 2");
}

TEST_F(LostRowsTest, NoPartIsMadeBeforeRowsHaveCaughtUp) {
  PushAndWrite();
  Rows(3);
  Rows(4);
  NextLife("boot-1");
  EXPECT_THAT(Lost({0}), IsEmpty());
  const auto start = [this] { return shard_->StartCheckpoint(OrderOf("a-1", 2)).status(); };
  EXPECT_THAT(start(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("have not sent again")));
  Rows(3);
  EXPECT_THAT(start(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("have not sent again")));
  Rows(4);
  EXPECT_OK(start());
}

}  // namespace
}  // namespace monsoon
