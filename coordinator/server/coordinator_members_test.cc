// Tokens and members through the service: nobody is told what is not on the disk, and shards hear
// of who was thrown out.
#include <memory>
#include <string>
#include <utility>

#include "common/security/certificate.h"
#include "common/security/certificate_authority.h"
#include "common/security/join_token.h"
#include "common/security/member_id.h"
#include "common/security/signing_request.h"
#include "common/security/token_book.h"
#include "common/transport/frame/fault.h"
#include "common/transport/frame/protocol.h"
#include "common/transport/grpc/call_table.h"
#include "coordinator/journal/journal.h"
#include "coordinator/server/coordinator_fixture.h"
#include "coordinator/server/member_service.h"
#include "gmock/gmock.h"
#include "proto/coordinator_state.pb.h"
#include "proto/member.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoordinatorTest;
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

// Keeps what is committed, unless it is told to fail.
class FailingJournal : public Journal {
 public:
  struct Disk {
    Mutex mutex;
    absl::Status error ABSL_GUARDED_BY(mutex);
    CoordinatorState state ABSL_GUARDED_BY(mutex);
  };
  explicit FailingJournal(Disk* disk) : disk_(*disk) {}

  absl::Status Commit(const StateUpdates& updates, absl::Duration) override {
    MutexLock lock(&disk_.mutex);
    if (disk_.error.ok()) {
      for (const StateUpdate& update : updates.update()) {
        EXPECT_OK(disk_.state.Apply(update));
      }
    }
    return disk_.error;
  }

 private:
  Disk& disk_;
};

class CoordinatorMembersTest : public CoordinatorTest {
 protected:
  CoordinatorMembersTest() : CoordinatorTest("/state") {
    cluster_.set_rpc_deadline_ms(400);
    OpenedJournal opened;
    opened.journal = std::make_unique<FailingJournal>(&disk_);
    StartCoordinator(std::move(opened));
    EXPECT_OK(coordinator_->AskMembers(
        [&](Members* members, Moment) { return members->UseAuthority(authority_); }));
    AddMemberCalls(coordinator_.get(), &faults_, &calls_);
  }
  ~CoordinatorMembersTest() override { coordinator_.reset(); }

  // As a call of this name arrives.
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Call(const std::string& name, const Request& request,
                             const Caller& caller = {.address = "ipv4:10.0.0.5:1"}) {
    for (const CallTable::Call& call : calls_.calls()) {
      if (call.method == "/monsoon.MemberService/" + name) {
        const absl::StatusOr<std::string> bytes = call.serve(caller, request.SerializeAsString());
        Reply reply;
        EXPECT_TRUE(!bytes.ok() || reply.ParseFromString(*bytes));
        return bytes.ok() ? absl::StatusOr<Reply>(reply) : bytes.status();
      }
    }
    return absl::NotFoundError(name);
  }
  JoinRequest NewJoin(const std::string& name) {
    CreateTokenRequest create;
    create.set_role("worker");
    create.set_ttl_ms(60'000);
    create.set_uses(1);
    const absl::StatusOr<CreateTokenReply> made = Call<CreateTokenReply>("CreateToken", create);
    EXPECT_OK(made);
    const JoinToken token = *ParseToken(made->token());
    JoinRequest join;
    join.set_cluster("c");
    join.set_token(token.id);
    join.set_secret(token.secret);
    join.set_signing_request(
        *MakeSigningRequest(PrivateKey::Generate(), {Role::kWorker, name, "c", ""}, {}));
    return join;
  }
  void SetError(absl::Status error) {
    MutexLock lock(&disk_.mutex);
    disk_.error = std::move(error);
  }
  int MembersOnDisk() {
    MutexLock lock(&disk_.mutex);
    return disk_.state.snapshot().members().member_size();
  }

  FailingJournal::Disk disk_;
  const CertificateAuthority authority_ =
      *CertificateAuthority::Create("c", Clock::Real()->WallTime());
  FaultInjector faults_{FaultOptions()};
  CallTable calls_;
};

TEST_F(CoordinatorMembersTest, NobodyIsInBeforeItIsOnTheDisk) {
  const JoinRequest join = NewJoin("0");
  SetError(absl::ResourceExhaustedError("disk is full"));
  EXPECT_THAT(Call<JoinReply>("Join", join),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("disk is full")));
  EXPECT_EQ(MembersOnDisk(), 0);
  SetError(absl::OkStatus());
  // The token has one use, and it is this key's.
  ASSERT_OK_AND_ASSIGN(const JoinReply reply, Call<JoinReply>("Join", join));
  EXPECT_NE(reply.granted().certificate(), "");
  EXPECT_EQ(MembersOnDisk(), 1);
}

TEST_F(CoordinatorMembersTest, WhoseAWorkerIsStandsOnTheDisk) {
  ASSERT_OK_AND_ASSIGN(const JoinReply joined, Call<JoinReply>("Join", NewJoin("0")));
  HeartbeatRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_cluster("c");
  request.set_pid(7);
  const Caller caller = {.address = "ipv4:10.0.0.5:1",
                         .member = *ReadPeer(joined.granted().certificate())};
  ASSERT_OK_AND_ASSIGN(const HeartbeatReply reply, coordinator_->Heartbeat(request, caller));
  EXPECT_EQ(reply.incarnation(), 1u);
  MutexLock lock(&disk_.mutex);
  const WorkerIncarnation* const worker = disk_.state.FindIncarnation(0);
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(worker->member().SerializeAsString(), ToProto(caller).SerializeAsString());
  EXPECT_EQ(worker->member().identity(), "monsoon://c/worker/0");
}

TEST_F(CoordinatorMembersTest, ShardsHearOfWhoWasThrownOut) {
  ASSERT_OK(Call<JoinReply>("Join", NewJoin("0")));
  ASSERT_OK(Call<JoinReply>("Join", NewJoin("beta-5f3a")));
  const RevokedKeys* const revoked = coordinator_->revoked_keys();
  EXPECT_EQ(revoked->All().key_size(), 0);
  RevokeMemberRequest revoke;
  revoke.set_member("worker/0");
  ASSERT_OK_AND_ASSIGN(const RevokeMemberReply reply,
                       Call<RevokeMemberReply>("RevokeMember", revoke));
  EXPECT_TRUE(revoked->Contains(reply.member().key()));
  for (const auto& gateway : gateways_) {
    ASSERT_TRUE(Await([&] { return gateway->revoked().key_size() == 1; }));
    EXPECT_EQ(gateway->revoked().key(0).fingerprint(), reply.member().key());
  }
  revoke.set_member("worker/beta-5f3a");
  ASSERT_OK(Call<RevokeMemberReply>("RevokeMember", revoke));
  ASSERT_TRUE(Await([&] { return gateways_[0]->revoked().key_size() == 2; }));
  // The keys of a list travel once.
  const int versions = gateways_[0]->versions();
  ASSERT_TRUE(Await([&] { return gateways_[0]->versions() >= versions + 3; }));
  EXPECT_EQ(gateways_[0]->lists(), 2);
}

TEST_F(CoordinatorMembersTest, ShardsHearNothingThatIsNotOnTheDisk) {
  ASSERT_OK(Call<JoinReply>("Join", NewJoin("0")));
  SetError(absl::ResourceExhaustedError("disk is full"));
  RevokeMemberRequest revoke;
  revoke.set_member("worker/0");
  EXPECT_THAT(Call<RevokeMemberReply>("RevokeMember", revoke),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("disk is full")));
  EXPECT_EQ(gateways_[0]->lists(), 0);
  SetError(absl::OkStatus());
  ASSERT_TRUE(Await([&] { return gateways_[0]->lists() == 1; }));
}

TEST_F(CoordinatorMembersTest, AnotherClustersRequestsAreRefused) {
  JoinRequest join = NewJoin("0");
  join.set_cluster("attic");
  EXPECT_THAT(Call<JoinReply>("Join", join),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("for cluster \"attic\"")));
  ListMembersRequest list;
  list.set_cluster("c");
  ASSERT_OK_AND_ASSIGN(const ListMembersReply members, Call<ListMembersReply>("ListMembers", list));
  EXPECT_EQ(members.member_size(), 0);
  ASSERT_OK_AND_ASSIGN(const ListTokensReply tokens,
                       Call<ListTokensReply>("ListTokens", ListTokensRequest()));
  EXPECT_EQ(tokens.token_size(), 1);
  RevokeTokenRequest revoke;
  revoke.set_id(tokens.token(0).id());
  ASSERT_OK(Call<TokenStatus>("RevokeToken", revoke));
  EXPECT_THAT(Call<MemberCertificate>("Renew", RenewRequest()),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("join with a token")));
}

TEST_F(CoordinatorMembersTest, OneMemberDoesNotMakeAllTokens) {
  CreateTokenRequest create;
  create.set_role("worker");
  create.set_ttl_ms(60'000);
  create.set_uses(1);
  const auto create_as = [&](const std::string& name) {
    Caller caller = {.address = "ipv4:10.0.0.5:1", .member = Peer()};
    caller.member->identity = {Role::kOperator, name, "c", ""};
    return Call<CreateTokenReply>("CreateToken", create, caller).status();
  };
  absl::Status status;
  for (size_t i = 0; i <= kMostTokens / 2 && status.ok(); ++i) {
    status = create_as("ada");
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("operator/ada has 500 tokens")));
  EXPECT_OK(create_as("bob"));
}

}  // namespace
}  // namespace monsoon
