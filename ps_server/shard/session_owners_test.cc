#include "ps_server/shard/session_owners.h"

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr SessionId kSession = {7, 3};

MemberId Member(const std::string& name, char key, const std::string& job = "") {
  return {{Role::kWorker, name, "lab", job}, std::string(32, key)};
}

Caller CallerOf(const MemberId& member) {
  Caller caller{.address = "ipv4:10.0.0.5:1"};
  Peer& peer = caller.member.emplace();
  peer.identity = member.identity;
  peer.key_fingerprint = member.key;
  return caller;
}

TEST(SessionOwnersTest, ASessionIsItsMembersAlone) {
  SessionOwners owners("lenet-1");
  owners.Set(kSession, Member("7", 'a'));
  EXPECT_EQ(owners.Check(kSession, CallerOf(Member("7", 'a'))), absl::OkStatus());
  EXPECT_THAT(owners.Check(kSession, CallerOf(Member("9", 'b'))).value_or(absl::OkStatus()),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("job lenet-1: the session of worker/7#3 is worker/7's"),
                             HasSubstr("from worker/9"))));
  EXPECT_THAT(owners.Check(kSession, {.address = "ipv4:10.0.0.5:1"}).value_or(absl::OkStatus()),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("from ipv4:10.0.0.5:1")));
}

TEST(SessionOwnersTest, TheNameIsNotEnough) {
  SessionOwners owners("lenet-1");
  owners.Set(kSession, Member("7", 'a'));
  EXPECT_THAT(owners.Check(kSession, CallerOf(Member("7", 'b'))).value_or(absl::OkStatus()),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("a later worker/7"), HasSubstr("another key"))));
  EXPECT_THAT(
      owners.Check(kSession, CallerOf(Member("7", 'a', "mlp-2"))).value_or(absl::OkStatus()),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("worker/7")));
}

TEST(SessionOwnersTest, NobodysIsAnybodys) {
  SessionOwners owners("lenet-1");
  owners.Set(kSession, std::nullopt);
  EXPECT_EQ(owners.Check(kSession, CallerOf(Member("9", 'b'))), absl::OkStatus());
}

TEST(SessionOwnersTest, OnlyOpenSessionsAreKnown) {
  SessionOwners owners("lenet-1");
  const Caller caller = CallerOf(Member("7", 'a'));
  EXPECT_EQ(owners.Check(kSession, caller), std::nullopt);
  owners.Set(kSession, Member("7", 'a'));
  EXPECT_EQ(owners.Check({7, 2}, caller), std::nullopt);
  EXPECT_EQ(owners.Check({8, 3}, caller), std::nullopt);
  owners.Forget(kSession);
  EXPECT_EQ(owners.Check(kSession, caller), std::nullopt);
}

TEST(SessionOwnersTest, ASessionDoesNotChangeHands) {
  SessionOwners owners("lenet-1");
  EXPECT_OK(owners.CheckIs(kSession, Member("7", 'a')));  // not open yet
  owners.Set(kSession, Member("7", 'a'));
  EXPECT_OK(owners.CheckIs(kSession, Member("7", 'a')));
  EXPECT_THAT(owners.CheckIs(kSession, Member("9", 'b')),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker/7's"), HasSubstr("become worker/9's"))));
  EXPECT_THAT(owners.CheckIs(kSession, std::nullopt),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("become nobody's")));
  owners.Set({8, 1}, std::nullopt);
  EXPECT_THAT(owners.CheckIs({8, 1}, Member("9", 'b')),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is nobody's")));
}

}  // namespace
}  // namespace monsoon
