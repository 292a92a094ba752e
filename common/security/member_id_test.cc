#include "common/security/member_id.h"

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

const Identity kWorker = {Role::kWorker, "7", "lab", ""};

Peer PeerOf(const Identity& identity, char key) {
  Peer peer;
  peer.identity = identity;
  peer.key_fingerprint = std::string(32, key);
  return peer;
}

TEST(MemberIdTest, IsANameAndAKey) {
  const MemberId member = {kWorker, std::string(32, 'a')};
  EXPECT_TRUE(IsMember(member, PeerOf(kWorker, 'a')));
  EXPECT_FALSE(IsMember(member, PeerOf(kWorker, 'b')));  // joined anew under the name
  EXPECT_FALSE(IsMember(member, PeerOf({Role::kWorker, "8", "lab", ""}, 'a')));
  EXPECT_FALSE(IsMember(member, PeerOf({Role::kOperator, "7", "lab", ""}, 'a')));
  EXPECT_FALSE(IsMember(member, PeerOf({Role::kWorker, "7", "lab", "lenet-1"}, 'a')));
}

TEST(MemberIdTest, IsReadAsItWasWritten) {
  const MemberIdentity proto = ToProto(Caller{.member = PeerOf(kWorker, 'a')});
  EXPECT_EQ(proto.identity(), "monsoon://lab/worker/7");
  EXPECT_EQ(MemberName(proto), "worker/7");
  ASSERT_OK_AND_ASSIGN(const std::optional<MemberId> member, ParseMemberId(proto));
  ASSERT_TRUE(member.has_value());
  EXPECT_TRUE(IsMember(*member, PeerOf(kWorker, 'a')));
  EXPECT_EQ(ToProto(*member).SerializeAsString(), proto.SerializeAsString());
}

TEST(MemberIdTest, WhoProvesNothingIsNobody) {
  for (const Caller& caller :
       {Caller{.open = true, .member = PeerOf(kWorker, 'a')}, Caller{.open = true}, Caller()}) {
    const MemberIdentity proto = ToProto(caller);
    EXPECT_TRUE(proto.SerializeAsString().empty());
    EXPECT_EQ(ParseMemberId(proto).value_or(MemberId()), std::nullopt);
    EXPECT_EQ(MemberName(proto), "nobody");
  }
}

TEST(MemberIdTest, HalfOfOneIsRefused) {
  MemberIdentity proto = ToProto(Caller{.member = PeerOf(kWorker, 'a')});
  proto.set_key("short");
  EXPECT_THAT(ParseMemberId(proto),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("worker/7")));
  proto.clear_key();
  EXPECT_THAT(ParseMemberId(proto), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0")));
  proto.set_key(std::string(32, 'a'));
  proto.set_identity("worker/7");
  EXPECT_THAT(ParseMemberId(proto), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")));
  proto.clear_identity();
  EXPECT_FALSE(ParseMemberId(proto).ok());
}

}  // namespace
}  // namespace monsoon
