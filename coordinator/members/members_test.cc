#include "coordinator/members/members.h"

#include <string>
#include <vector>

#include "common/security/join_token.h"
#include "common/security/member_id.h"
#include "common/security/peer_verifier.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/members/member_world.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::MemberWorld;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kNowMs = 1'800'000'000'000;

// A joiner: a key, and who it asks to be.
struct Joiner {
  PrivateKey key = PrivateKey::Generate();
  std::string uri = "monsoon://lab/worker/0";
  std::vector<std::string> hosts = {"beta"};

  std::string Request() const { return *MakeSigningRequest(key, *ParseIdentity(uri), hosts); }
};

class MembersTest : public ::testing::Test {
 protected:
  absl::StatusOr<CreateTokenReply> Create(const std::string& role, uint32_t uses = 1,
                                          const std::string& job = "") {
    CreateTokenRequest request;
    request.set_role(role);
    request.set_ttl_ms(absl::ToInt64Milliseconds(absl::Hours(24)));
    request.set_uses(uses);
    request.set_job(job);
    return world_.members->CreateToken(request, {}, world_.now);
  }
  JoinToken Token(const std::string& role, uint32_t uses = 1, const std::string& job = "") {
    return *ParseToken(Create(role, uses, job)->token());
  }
  absl::StatusOr<JoinReply> Join(const JoinToken& token, const std::string& signing_request,
                                 const std::string& from = "ipv4:10.0.0.5:41234") {
    JoinRequest request;
    request.set_token(token.id);
    request.set_secret(token.secret);
    request.set_signing_request(signing_request);
    return world_.members->Join(request, {.address = from}, world_.now);
  }
  absl::StatusOr<JoinReply> Join(const JoinToken& token, const Joiner& joiner = {}) {
    return Join(token, joiner.Request());
  }
  // As the connection proves it, with this certificate.
  Caller CallerOf(const std::string& certificate) {
    const absl::StatusOr<Peer> peer =
        PeerVerifier::Create(world_.authority.certificate())
            ->Verify(certificate, absl::FromUnixMillis(world_.now.unix_ms));
    EXPECT_OK(peer);
    return {.address = "ipv4:10.0.0.5:41234", .member = *peer};
  }
  Caller Joined(const Joiner& joiner = {}, const std::string& role = "worker") {
    const absl::StatusOr<JoinReply> reply = Join(Token(role), joiner);
    EXPECT_OK(reply);
    return CallerOf(reply->granted().certificate());
  }
  absl::StatusOr<MemberCertificate> Renew(const Caller& caller, const Joiner& joiner) {
    RenewRequest request;
    request.set_signing_request(joiner.Request());
    return world_.members->Renew(request, caller, world_.now);
  }

  MemberWorld world_{kNowMs};
};

TEST_F(MembersTest, WhoeverHasATokenGetsACertificate) {
  const JoinToken token = Token("worker", 1, "lenet-1");
  EXPECT_OK(CheckAuthority(token, world_.authority.facts()));
  ASSERT_OK_AND_ASSIGN(const JoinReply terms, Join(token, ""));
  EXPECT_EQ(terms.role(), "worker");
  EXPECT_EQ(terms.job(), "lenet-1");
  EXPECT_FALSE(terms.has_granted());

  Joiner joiner;
  joiner.uri = "monsoon://lab/worker/0?job=lenet-1";
  ASSERT_OK_AND_ASSIGN(const JoinReply reply, Join(token, joiner));
  EXPECT_EQ(reply.granted().authority(), world_.authority.certificate());
  const Caller caller = CallerOf(reply.granted().certificate());
  EXPECT_EQ(ToUri(caller.member->identity), joiner.uri);
  EXPECT_EQ(caller.member->key_fingerprint, joiner.key.Fingerprint());
  EXPECT_THAT(caller.member->hosts, ElementsAre("beta"));
  // The answer was lost.
  ASSERT_OK(Join(token, joiner));
  Joiner other = joiner;
  other.key = PrivateKey::Generate();
  EXPECT_THAT(Join(token, other),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("is used up")));
  const ListMembersReply list = world_.members->ListMembers(world_.now);
  ASSERT_EQ(list.member_size(), 1);
  EXPECT_EQ(list.member(0).member(), "worker/0");
  EXPECT_EQ(list.member(0).token(), token.id);
  EXPECT_EQ(list.member(0).state(), "live");
  EXPECT_THAT(world_.registry->log.back(), AllOf(HasSubstr("worker/0 has joined from 10.0.0.5"),
                                                 HasSubstr(token.id), HasSubstr("it is at beta")));
}

TEST_F(MembersTest, TheRoleAndTheJobAreTheTokens) {
  const JoinToken token = Token("worker");
  const auto refused = [&](const std::string& uri, const std::string& reason) {
    Joiner joiner;
    joiner.uri = uri;
    EXPECT_THAT(Join(token, joiner), StatusIs(absl::StatusCode::kPermissionDenied,
                                              AllOf(HasSubstr(uri), HasSubstr(reason))));
  };
  refused("monsoon://lab/ps/0", "may be monsoon://lab/worker/0 only");
  refused("monsoon://lab/coordinator/0", "may be monsoon://lab/worker/0 only");
  refused("monsoon://lab/worker/0?job=lenet-1", "may be monsoon://lab/worker/0 only");
  refused("monsoon://attic/worker/0", "may be monsoon://lab/worker/0 only");
  // Nothing was used up by that.
  EXPECT_EQ(world_.members->ListTokens(world_.now).token(0).uses_left(), 1u);
  EXPECT_THAT(world_.members->ListMembers(world_.now).member(), IsEmpty());
  EXPECT_THAT(Create("coordinator").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("as its coordinator")));
}

TEST_F(MembersTest, ANameIsATasksNumberOrAGuests) {
  const JoinToken workers = Token("worker", 9);
  Joiner joiner;
  joiner.uri = "monsoon://lab/worker/2";
  EXPECT_THAT(Join(workers, joiner),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("worker/2 is not in the cluster file"), HasSubstr("0 to 1"),
                             HasSubstr("--name=NAME"))));
  joiner.uri = "monsoon://lab/worker/beta-5f3a";
  EXPECT_OK(Join(workers, joiner));
  Joiner ps;
  ps.uri = "monsoon://lab/ps/1";
  EXPECT_THAT(Join(Token("ps"), ps),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("whose ps tasks are 0")));
  ps.uri = "monsoon://lab/ps/0";
  EXPECT_OK(Join(Token("ps"), ps));
  Joiner person;
  person.uri = "monsoon://lab/viewer/ada";
  EXPECT_OK(Join(Token("viewer"), person));
  // Somebody else has it.
  Joiner other;
  other.uri = "monsoon://lab/worker/beta-5f3a";
  EXPECT_THAT(Join(workers, other), StatusIs(absl::StatusCode::kAlreadyExists,
                                             AllOf(HasSubstr("worker/beta-5f3a is there already"),
                                                   HasSubstr("member revoke worker/beta-5f3a"))));
  EXPECT_EQ(world_.members->ListTokens(world_.now).token(0).uses_left(), 8u);
}

TEST_F(MembersTest, WrongTokensSlowTheirAddressDown) {
  const JoinToken token = Token("worker");
  JoinToken wrong = token;
  wrong.secret[3] = static_cast<char>(wrong.secret[3] ^ 1);
  for (int i = 0; i < WrongTries::kSlowedAt; ++i) {
    EXPECT_THAT(Join(wrong, Joiner()),
                StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("the secret of token")));
  }
  EXPECT_THAT(Join(token), StatusIs(absl::StatusCode::kResourceExhausted,
                                    HasSubstr("wrong tokens came from 10.0.0.5")));
  // From another port of the same host too, and not from another host.
  EXPECT_THAT(Join(token, "", "ipv4:10.0.0.5:1"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("10.0.0.5")));
  EXPECT_OK(Join(token, "", "ipv6:%5B2001:db8::1%5D:41234"));
  world_.Pass(absl::Seconds(1));
  EXPECT_OK(Join(token));
}

TEST_F(MembersTest, WhatIsNoRequestSlowsDownToo) {
  const JoinToken token = Token("worker");
  for (int i = 0; i < WrongTries::kSlowedAt; ++i) {
    EXPECT_EQ(Join(token, "nonsense").status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Join(token).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(MembersTest, ATokenEndsByRevocationAndByTime) {
  const JoinToken revoked = Token("worker");
  ASSERT_OK_AND_ASSIGN(const TokenStatus status,
                       world_.members->RevokeToken(revoked.id, world_.now));
  EXPECT_EQ(status.state(), "revoked");
  EXPECT_THAT(Join(revoked),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("was revoked at")));
  EXPECT_THAT(world_.members->RevokeToken("0123456789ab", world_.now),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no token 0123456789ab")));
  const JoinToken old = Token("worker");
  world_.Pass(absl::Hours(25));
  EXPECT_THAT(Join(old),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("expired at"), HasSubstr("by the coordinator's clock"))));
}

TEST_F(MembersTest, AMemberRenewsItsOwn) {
  Joiner joiner;
  const Caller caller = Joined(joiner);
  world_.Pass(absl::Hours(80));
  Joiner next = joiner;
  next.key = PrivateKey::Generate();
  ASSERT_OK_AND_ASSIGN(const MemberCertificate certificate, Renew(caller, next));
  const Caller again = CallerOf(certificate.certificate());
  EXPECT_EQ(again.member->identity, caller.member->identity);
  EXPECT_GT(again.member->validity.end, caller.member->validity.end);
  EXPECT_EQ(world_.members->ListMembers(world_.now).member(0).renewed_ms(), world_.now.unix_ms);

  Joiner another = next;
  another.uri = "monsoon://lab/worker/1";
  EXPECT_THAT(Renew(again, another), StatusIs(absl::StatusCode::kPermissionDenied,
                                              HasSubstr("may be monsoon://lab/worker/0 only")));
  EXPECT_THAT(Renew({.address = "ipv4:10.0.0.5:1"}, next),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("join with a token")));
  // Made by the authority itself, of which the coordinator keeps nothing.
  const Joiner local;
  const Caller unknown =
      CallerOf(*world_.authority.Sign(local.Request(), {*ParseIdentity(local.uri), {"beta"}},
                                      absl::FromUnixMillis(world_.now.unix_ms)));
  EXPECT_THAT(Renew(unknown, local),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("join again with a token")));
}

TEST_F(MembersTest, ARevokedMemberIsOut) {
  Joiner joiner;
  const Caller caller = Joined(joiner);
  const std::string key = joiner.key.Fingerprint();
  EXPECT_FALSE(world_.members->revoked_keys()->Contains(key));
  EXPECT_EQ(world_.members->revocations().version(), 0u);
  EXPECT_FALSE(world_.members->wants_poll());
  ASSERT_OK_AND_ASSIGN(const RevokeMemberReply reply,
                       world_.members->RevokeMember("worker/0", world_.now));
  EXPECT_EQ(reply.member().state(), "revoked");
  EXPECT_THAT(reply.ended_task(), IsEmpty());  // it was nobody's session
  EXPECT_TRUE(world_.members->revoked_keys()->Contains(key));
  EXPECT_EQ(world_.members->revocations().key_size(), 1);
  EXPECT_TRUE(world_.members->wants_poll());
  EXPECT_THAT(Renew(caller, joiner),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("worker/0 was revoked")));
  EXPECT_THAT(Join(Token("worker"), joiner),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("key of worker/0")));
  EXPECT_THAT(
      world_.members->RevokeMember("\x1b[2J" + std::string(1000, 'x'), world_.now),
      StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("\\x1b[2Jxxx"), HasSubstr("x...;"))));
  EXPECT_THAT(world_.members->RevokeMember("worker/1", world_.now),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nobody has joined as worker/1")));
  // Its name is free, and the next life knows it all.
  Joined();
  world_.Start(world_.registry->writer.state());
  EXPECT_TRUE(world_.members->revoked_keys()->Contains(key));
  EXPECT_EQ(world_.members->revocations().key_size(), 1);
}

TEST_F(MembersTest, WithoutAnAuthorityNobodyJoins) {
  const JoinToken token = Token("worker");
  world_.Start(world_.registry->writer.state());
  for (const absl::Status& status : {Join(token).status(), Create("worker").status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("has no authority"), HasSubstr("cluster init"))));
  }
  EXPECT_THAT(world_.members->UseAuthority(*CertificateAuthority::Create("attic", absl::Now())),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("of cluster attic")));
  // What there is can be looked at and ended.
  EXPECT_EQ(world_.members->ListTokens(world_.now).token_size(), 1);
  EXPECT_OK(world_.members->RevokeToken(token.id, world_.now));
}

TEST_F(MembersTest, AWorkerIsNobodyButItsTask) {
  const Caller listed = Joined();
  Joiner guest_joiner;
  guest_joiner.uri = "monsoon://lab/worker/beta-5f3a";
  const Caller guest = Joined(guest_joiner);
  HeartbeatRequest as_task;
  as_task.set_task(0);
  HeartbeatRequest as_guest;
  as_guest.set_guest(77);
  EXPECT_OK(world_.members->CheckWorker(as_task, listed));
  EXPECT_OK(world_.members->CheckWorker(as_guest, listed));
  EXPECT_OK(world_.members->CheckWorker(as_guest, guest));
  EXPECT_THAT(world_.members->CheckWorker(as_task, guest),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("calls as worker/0"), HasSubstr("worker/beta-5f3a"))));
  as_task.set_task(1);
  EXPECT_THAT(world_.members->CheckWorker(as_task, listed),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("certificate of worker/0")));
  EXPECT_OK(world_.members->CheckWorker(as_task, {.open = true}));
  Caller bound = guest;
  bound.member->identity.job = "lenet-1";
  EXPECT_THAT(world_.members->CheckWorker(as_guest, bound),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("job lenet-1 alone")));
  as_guest.set_enters_job("lenet-1");
  EXPECT_OK(world_.members->CheckWorker(as_guest, bound));

  EXPECT_OK(world_.members->CheckEnter("lenet-1", bound));
  EXPECT_OK(world_.members->CheckEnter("mlp", guest));
  EXPECT_THAT(world_.members->CheckEnter("lenet", bound),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("job lenet-1 alone")));
}

TEST_F(MembersTest, AWorkerIsWhoHasJoinedAsIt) {
  const Caller listed = Joined();
  Joiner guest_joiner;
  guest_joiner.uri = "monsoon://lab/worker/beta-5f3a";
  const Caller guest = Joined(guest_joiner);
  EXPECT_OK(world_.members->CheckSession(0, guest));  // nobody has joined as it yet
  HeartbeatRequest joins;
  joins.set_protocol_version(kProtocolVersion);
  joins.set_cluster("lab");
  joins.set_pid(1);
  ASSERT_OK(world_.registry->membership.Heartbeat(joins, world_.now.now, world_.now.unix_ms,
                                                  ToProto(listed)));
  EXPECT_OK(world_.members->CheckSession(0, listed));
  EXPECT_OK(world_.members->CheckSession(0, {.open = true}));
  EXPECT_THAT(world_.members->CheckSession(0, guest),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("beta-5f3a speaks for worker/0"),
                             HasSubstr("joined as worker/0, another member"))));
  Caller later = listed;
  later.member->key_fingerprint[0] ^= 1;
  EXPECT_THAT(world_.members->CheckSession(0, later),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("with another key")));
  // The next life knows it too, before the first heartbeat.
  world_.Start(world_.registry->writer.state());
  EXPECT_OK(world_.members->CheckSession(0, listed));
  EXPECT_FALSE(world_.members->CheckSession(0, guest).ok());
}

}  // namespace
}  // namespace monsoon
