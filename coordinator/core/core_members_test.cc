// What becomes of a worker whose member is thrown out.
#include "common/security/certificate_authority.h"
#include "common/security/join_token.h"
#include "common/security/member_id.h"
#include "common/security/signing_request.h"
#include "coordinator/core/core_harness.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreHarness;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// Certificates are not of 1970.
constexpr absl::Duration kAhead = absl::Hours(24 * 365 * 57);

class CoreMembersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    h_.SetWallClockAhead(kAhead);
    ASSERT_OK(h_.core().members()->UseAuthority(authority_));
    h_.Submit(h_.Plan(/*epochs=*/1));
    h_.Poll();
    h_.Settle();
    JoinAs(0);
    JoinAs(1);
    h_.Join(0);
    h_.Join(1);
    ASSERT_OK(h_.Ask(0));
    ASSERT_OK(h_.Ask(1));  // all four blocks are held
  }

  // A new key joins as worker `number`, whose heartbeats are that one's from now on.
  Caller JoinAs(uint32_t number) {
    Members* const members = h_.core().members();
    CreateTokenRequest create;
    create.set_role("worker");
    create.set_ttl_ms(60'000);
    create.set_uses(1);
    const JoinToken token = *ParseToken(members->CreateToken(create, {}, h_.now())->token());
    const PrivateKey key = PrivateKey::Generate();
    JoinRequest join;
    join.set_token(token.id);
    join.set_secret(token.secret);
    join.set_signing_request(
        *MakeSigningRequest(key, {Role::kWorker, absl::StrCat(number), "c", ""}, {}));
    const absl::StatusOr<JoinReply> reply = members->Join(join, {}, h_.now());
    EXPECT_OK(reply);
    Caller caller = {.address = "ipv4:10.0.0.5:1",
                     .member = *ReadPeer(reply->granted().certificate())};
    h_.member_[number] = ToProto(caller);
    return caller;
  }
  std::string OwnerOn(uint32_t shard, const std::string& session) {
    return h_.shard(shard).owner[session].SerializeAsString();
  }

  CoreHarness h_{2, 3};
  const CertificateAuthority authority_ =
      *CertificateAuthority::Create("c", absl::UnixEpoch() + kAhead);
};

TEST_F(CoreMembersTest, ItsSessionsAreClosedBeforeItsBlocksGoToOthers) {
  h_.shard(0).silent = true;
  const absl::StatusOr<RevokeMemberReply> reply =
      h_.core().members()->RevokeMember("worker/1", h_.now());
  ASSERT_OK(reply);
  EXPECT_THAT(reply->ended_task(), ElementsAre("worker/1"));
  EXPECT_TRUE(h_.core().wants_poll());
  h_.core().Tick(h_.now());
  h_.Settle();
  EXPECT_THAT(h_.Events(), Contains("worker_revoked worker/1"));
  // One shard may still apply what it has sent: nobody gets its blocks.
  EXPECT_THAT(h_.shard(1).open, Not(Contains("j-1/1#1")));
  EXPECT_THAT(h_.shard(0).open, Contains("j-1/1#1"));
  EXPECT_EQ(h_.Describe().data().blocks_released(), 0u);
  h_.shard(0).silent = false;
  h_.Pass(absl::Seconds(1), {0});
  EXPECT_THAT(h_.shard(0).open, Not(Contains("j-1/1#1")));
  EXPECT_EQ(h_.Describe().data().blocks_released(), 2u);
  h_.TrainToTheEnd(0);
  EXPECT_EQ(h_.done_.size(), 4u);
}

TEST_F(CoreMembersTest, OthersGoOn) {
  const absl::StatusOr<RevokeMemberReply> reply =
      h_.core().members()->RevokeMember("worker/0", h_.now());
  ASSERT_OK(reply);
  EXPECT_THAT(reply->ended_task(), ElementsAre("worker/0"));
  h_.core().Tick(h_.now());
  h_.Settle();
  EXPECT_THAT(h_.shard(0).open, ElementsAre("j-1/1#1"));
  // Its name is another's by then, and that one stays.
  JoinAs(0);
  h_.Pass(absl::Seconds(1), {0, 1});
  EXPECT_THAT(h_.core().members()->RevokeMember("worker/0", h_.now())->ended_task(),
              ElementsAre("worker/0"));
  EXPECT_THAT(h_.core().members()->RevokeMember("worker/0", h_.now())->ended_task(), IsEmpty());
}

TEST_F(CoreMembersTest, ShardsAreToldWhoseEachSessionIs) {
  for (const uint32_t shard : {0u, 1u}) {
    for (const uint32_t worker : {0u, 1u}) {
      EXPECT_EQ(OwnerOn(shard, absl::StrCat("j-1/", worker, "#1")),
                h_.member_[worker].SerializeAsString());
    }
  }
  EXPECT_EQ(h_.member_[1].identity(), "monsoon://c/worker/1");
  EXPECT_NE(h_.member_[0].key(), h_.member_[1].key());
}

TEST_F(CoreMembersTest, WhoHasJoinedAnewWithAnotherKeyGetsAnotherSession) {
  ASSERT_OK(h_.core().members()->RevokeMember("worker/1", h_.now()));
  const MemberIdentity before = h_.member_[1];
  JoinAs(1);
  h_.Pass(absl::Seconds(1), {0, 1});
  EXPECT_THAT(h_.shard(0).open, ElementsAre("j-1/0#1", "j-1/1#2"));
  EXPECT_EQ(OwnerOn(0, "j-1/1#1"), before.SerializeAsString());
  EXPECT_EQ(OwnerOn(0, "j-1/1#2"), h_.member_[1].SerializeAsString());
}

TEST_F(CoreMembersTest, TheNextLifeKnowsWhoseTheSessionsAre) {
  const Caller other = JoinAs(2);
  h_.RestartCoordinator();
  EXPECT_TRUE(absl::IsPermissionDenied(h_.core().members()->CheckSession(1, other)));
  const DurableJob* const job = h_.core().state().FindJob("j-1");
  ASSERT_EQ(job->session_size(), 2);
  for (const DurableSession& session : job->session()) {
    EXPECT_EQ(session.member().SerializeAsString(),
              h_.member_[session.worker()].SerializeAsString());
  }
}

}  // namespace
}  // namespace monsoon
