#include "common/security/member_book.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/security/digest.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);  // 2027-01-15T08:00:00Z
constexpr absl::Duration kWeek = absl::Hours(24 * 7);
const std::string kOne = Sha256("one");
const std::string kTwo = Sha256("two");
const std::string kThree = Sha256("three");

// Keeps each update, so that a replay of them can be compared.
class MemberBookTest : public ::testing::Test {
 protected:
  void TearDown() override {
    MemberRecords replayed;
    for (const MemberUpdate& update : updates_) {
      ASSERT_OK(MemberBook::Apply(update, &replayed));
    }
    EXPECT_EQ(replayed.SerializeAsString(), members_.SerializeAsString());
  }

  absl::Status Apply(const absl::StatusOr<MemberUpdate>& update) {
    if (!update.ok()) {
      return update.status();
    }
    updates_.push_back(*update);
    return MemberBook::Apply(*update, &members_);
  }
  static Holder Worker(const std::string& name, const std::string& key, absl::Time now) {
    return {{Role::kWorker, name, "lab", ""}, key, {"beta"}, now + kWeek};
  }
  absl::Status Join(const std::string& name, const std::string& key, absl::Time now = kNow) {
    return Apply(book_.Admit(Worker(name, key, now), "0123456789ab", now));
  }
  absl::Status Renew(const std::string& name, const std::string& was, const std::string& key,
                     absl::Time now) {
    return Apply(book_.Renew(was, Worker(name, key, now), now));
  }
  absl::Status Revoke(const std::string& member, absl::Time now = kNow) {
    return Apply(book_.Revoke(member, now));
  }

  MemberRecords members_;
  const MemberBook book_{&members_};
  std::vector<MemberUpdate> updates_;
};

TEST_F(MemberBookTest, ANameIsOneKeysAsLongAsItIsLive) {
  ASSERT_OK(Join("7", kOne));
  ASSERT_OK(Join("8", kTwo));
  EXPECT_THAT(Join("7", kThree),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("worker/7 is there already, with another key"),
                             HasSubstr("from beta"), HasSubstr("member revoke worker/7"))));
  // Another role's seven is somebody else.
  ASSERT_OK(Apply(
      book_.Admit({{Role::kPs, "7", "lab", ""}, kThree, {}, kNow + kWeek}, "0123456789ab", kNow)));
  // To be there for one job is no other name.
  EXPECT_THAT(Apply(book_.Admit({{Role::kWorker, "8", "lab", "j-1"}, Sha256("x"), {}, kNow + kWeek},
                                "t", kNow)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("worker/8")));
  ASSERT_OK(Join("7", Sha256("later"), kNow + kWeek + absl::Milliseconds(1)));
  EXPECT_EQ(members_.member_size(), 3);
  EXPECT_EQ(book_.Find("worker/7", kNow)->key(), Sha256("later"));
}

TEST_F(MemberBookTest, WhoAsksAgainIsTheSame) {
  ASSERT_OK(Join("7", kOne));
  ASSERT_OK(Join("7", kOne, kNow + absl::Seconds(5)));
  ASSERT_EQ(members_.member_size(), 1);
  EXPECT_EQ(members_.member(0).not_after_ms(), absl::ToUnixMillis(kNow + absl::Seconds(5) + kWeek));
  EXPECT_EQ(members_.member(0).earlier_size(), 0);
  EXPECT_THAT(Join("8", kOne), StatusIs(absl::StatusCode::kAlreadyExists,
                                        HasSubstr("this key is that of worker/7")));
}

TEST_F(MemberBookTest, ARenewalGoesOnAsTheSame) {
  ASSERT_OK(Join("7", kOne));
  ASSERT_OK(Renew("7", kOne, kOne, kNow + absl::Hours(80)));
  EXPECT_EQ(members_.member(0).not_after_ms(), absl::ToUnixMillis(kNow + absl::Hours(80) + kWeek));
  ASSERT_OK(Renew("7", kOne, kTwo, kNow + absl::Hours(160)));
  // Its answer was lost: the old key asks again.
  ASSERT_OK(Renew("7", kOne, kTwo, kNow + absl::Hours(161)));
  ASSERT_EQ(members_.member_size(), 1);
  EXPECT_EQ(members_.member(0).key(), kTwo);
  ASSERT_EQ(members_.member(0).earlier_size(), 1);
  EXPECT_EQ(members_.member(0).earlier(0).fingerprint(), kOne);
  EXPECT_EQ(members_.member(0).joined_ms(), absl::ToUnixMillis(kNow));
  // The key that has ended is nobody's any more.
  ASSERT_OK(Renew("7", kTwo, kThree, kNow + absl::Hours(300)));
  ASSERT_EQ(members_.member(0).earlier_size(), 1);
  EXPECT_EQ(members_.member(0).earlier(0).fingerprint(), kTwo);
}

TEST_F(MemberBookTest, WhoMayNotRenewIsToldWhy) {
  ASSERT_OK(Join("7", kOne));
  ASSERT_OK(Join("8", kTwo));
  EXPECT_THAT(Renew("7", kThree, kThree, kNow),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("does not know worker/7"), HasSubstr("join again"))));
  EXPECT_THAT(Renew("8", kOne, kOne, kNow),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("does not know worker/8")));
  EXPECT_THAT(Renew("7", kOne, kTwo, kNow),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("is that of worker/8")));
  for (int i = 0; i < kMostEarlierKeys; ++i) {
    ASSERT_OK(Renew("7", kOne, Sha256(absl::StrCat(i)), kNow));
  }
  EXPECT_THAT(Renew("7", kOne, kThree, kNow),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("5 keys")));
  ASSERT_OK(Renew("7", kOne, kOne, kNow));
  ASSERT_OK(Revoke("worker/7"));
  EXPECT_THAT(Renew("7", kOne, kOne, kNow),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("worker/7 was revoked at 2027-01-15T08:00:00")));
}

TEST_F(MemberBookTest, ToRevokeAMemberIsToRevokeAllItsKeys) {
  ASSERT_OK(Join("7", kOne));
  ASSERT_OK(Join("8", kThree));
  ASSERT_OK(Renew("7", kOne, kTwo, kNow + absl::Hours(1)));
  EXPECT_EQ(book_.Revoked().version(), 0u);
  EXPECT_FALSE(book_.IsRevoked(kOne));
  ASSERT_OK(Revoke("worker/7"));
  ASSERT_OK(Revoke("worker/7", kNow + absl::Hours(5)));  // from the first time
  EXPECT_EQ(members_.member(0).revoked_ms(), absl::ToUnixMillis(kNow));
  EXPECT_TRUE(book_.IsRevoked(kOne));
  EXPECT_TRUE(book_.IsRevoked(kTwo));
  EXPECT_FALSE(book_.IsRevoked(kThree));
  EXPECT_EQ(book_.Revoked().key_size(), 2);
  EXPECT_THAT(Revoke("worker/9"), StatusIs(absl::StatusCode::kNotFound,
                                           AllOf(HasSubstr("nobody has joined as worker/9"),
                                                 HasSubstr("member list"))));
}

TEST_F(MemberBookTest, ARevokedNameIsFreeAndItsKeyIsNot) {
  ASSERT_OK(Join("7", kOne));
  ASSERT_OK(Revoke("worker/7"));
  EXPECT_THAT(Join("7", kOne), StatusIs(absl::StatusCode::kPermissionDenied,
                                        HasSubstr("the key of worker/7 was revoked")));
  ASSERT_OK(Join("7", kTwo));
  EXPECT_EQ(book_.Find("worker/7", kNow)->key(), kTwo);
  EXPECT_TRUE(book_.IsRevoked(kOne));
  EXPECT_FALSE(book_.IsRevoked(kTwo));
  // The revoked one is there until its certificate has ended, whatever else happens.
  ASSERT_OK(Join("8", kThree, kNow + kWeek));
  EXPECT_TRUE(book_.IsRevoked(kOne));
  ASSERT_OK(Join("9", Sha256("9"), kNow + kWeek + kRevokedKept + absl::Milliseconds(1)));
  EXPECT_FALSE(book_.IsRevoked(kOne));
  EXPECT_EQ(MemberBook::StateOf(members_.member(0), kNow + kWeek + absl::Hours(1)), "ended");
  EXPECT_EQ(members_.member_size(), 3);
}

TEST_F(MemberBookTest, ThereIsRoomForSoMany) {
  for (size_t i = 0; i < kMostMembers; ++i) {
    members_.add_member()->set_identity(absl::StrCat("monsoon://lab/viewer/v", i));
    members_.mutable_member(static_cast<int>(i))->set_not_after_ms(absl::ToUnixMillis(kNow));
  }
  EXPECT_THAT(book_.Admit(Worker("7", kOne, kNow), "t", kNow).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("4096 members")));
  const absl::Time later = kNow + kEndedMemberKept + absl::Milliseconds(1);
  EXPECT_OK(book_.Admit(Worker("7", kOne, later), "t", later));
  members_.Clear();
}

TEST_F(MemberBookTest, UpdatesOfNoDecisionAreRefused) {
  const auto refused = [&](const MemberUpdate& update) {
    const std::string before = members_.SerializeAsString();
    EXPECT_EQ(MemberBook::Apply(update, &members_).code(), absl::StatusCode::kFailedPrecondition)
        << update.ShortDebugString();
    EXPECT_EQ(members_.SerializeAsString(), before);
  };
  ASSERT_OK(Join("7", kOne));
  refused(MemberUpdate());
  MemberUpdate taken = *book_.Admit(Worker("8", kTwo, kNow), "t", kNow);
  taken.mutable_admitted()->set_identity("monsoon://lab/worker/7");
  refused(taken);
  taken.mutable_admitted()->set_identity("worker/8");
  refused(taken);
  MemberUpdate renewed = *book_.Renew(kOne, Worker("7", kOne, kNow), kNow);
  renewed.mutable_renewed()->set_was(kTwo);
  refused(renewed);
  renewed.mutable_renewed()->set_was(kOne);
  ASSERT_OK(Revoke("worker/7"));
  refused(renewed);
}

}  // namespace
}  // namespace monsoon
