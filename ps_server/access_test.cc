// What each member of a cluster can do to a shard over TLS: all methods and all kinds of frames.
#include "common/security/access.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "common/security/revocations.h"
#include "common/testing/status_matchers.h"
#include "common/transport/grpc/tls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

using Vector = std::vector<float>;

constexpr absl::Duration kDeadline = absl::Seconds(20);
constexpr Role kRoles[] = {Role::kCoordinator, Role::kPs, Role::kWorker, Role::kOperator,
                           Role::kViewer};

class SecuredShardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(shards_,
                         TestShards::Start({.link = TestLink::kTls, .transport = Transport::GRPC}));
    TestJobOptions options = SmallJob();
    options.written_by_client = true;
    ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(options));
  }

  std::unique_ptr<ParameterClient> Client(ParameterClientOptions options, Role role) {
    options.tls = shards_->TlsOf(role, role == Role::kOperator ? "ada" : "1");
    options.deadline = kDeadline;
    absl::StatusOr<std::unique_ptr<ParameterClient>> client =
        ParameterClient::Create(std::move(options));
    EXPECT_OK(client.status());
    return *std::move(client);
  }

  ParameterClientOptions ReadOnly() const {
    ParameterClientOptions options;
    options.job = job_.name;
    options.layout_hash = job_.layout.Hash();
    options.map = job_.map;
    options.addresses = shards_->addresses();
    options.read_only = true;
    options.transport = Transport::GRPC;
    return options;
  }

  std::unique_ptr<TestShards> shards_;
  TestJob job_;
};

bool MayRead(Role role) { return role >= Role::kWorker; }

TEST_F(SecuredShardTest, ReadingIsForWorkersAndPeople) {
  ASSERT_OK(Client(ReadOnly(), Role::kOperator)->Write(Vector(job_.map.size(), 0.5f)));
  for (const Role role : kRoles) {
    Vector parameters(job_.map.size());
    const absl::Status status = Client(ReadOnly(), role)->Fetch(parameters, nullptr, nullptr);
    EXPECT_EQ(status.ok(), MayRead(role)) << RoleName(role) << ": " << status;
    EXPECT_EQ(parameters[0], MayRead(role) ? 0.5f : 0.0f);
  }
}

TEST_F(SecuredShardTest, WritingIsForWhoBeginsAJob) {
  for (const Role role : {Role::kCoordinator, Role::kPs, Role::kViewer}) {
    EXPECT_THAT(Client(ReadOnly(), role)->Write(Vector(job_.map.size(), 1.0f)),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("worker or operator")))
        << RoleName(role);
  }
  EXPECT_OK(Client(ReadOnly(), Role::kOperator)->Write(Vector(job_.map.size(), 1.0f)));
  EXPECT_OK(Client(ReadOnly(), Role::kWorker)->Write(Vector(job_.map.size(), 2.0f)));
}

TEST_F(SecuredShardTest, PushingIsAWorkersAlone) {
  ASSERT_OK(Client(ReadOnly(), Role::kOperator)->Write(Vector(job_.map.size(), 0.5f)));
  ASSERT_OK_AND_ASSIGN(const ParameterClientOptions session, shards_->OpenSession(job_, 0));
  const Vector gradient(job_.map.size(), 1.0f);
  for (const Role role : {Role::kCoordinator, Role::kPs, Role::kOperator, Role::kViewer}) {
    EXPECT_FALSE(Client(session, role)->Push(gradient, {}).ok()) << RoleName(role);
  }
  EXPECT_EQ(shards_->server(0)->GetStatus().job(0).applied(), 0u);
  EXPECT_OK(Client(session, Role::kWorker)->Push(gradient, {}).status());
  EXPECT_EQ(shards_->server(0)->GetStatus().job(0).applied(), 16u);
}

TEST_F(SecuredShardTest, WhatIsTheCoordinatorsNobodyElseMayAskFor) {
  for (const Role role : {Role::kPs, Role::kWorker, Role::kOperator, Role::kViewer}) {
    const auto control =
        ShardControl::Create(shards_->addresses()[0], kDeadline, {}, shards_->TlsOf(role, "1"));
    SessionKey session;
    session.set_job(job_.name);
    VectorRequest vector;
    vector.set_job(job_.name);
    const std::vector<absl::Status> refused = {
        control->CreateJob(shards_->CreateRequest(SmallJob(), 0)).status(),
        control->RestoreJob(RestoreShardJobRequest()).status(),
        control->DeleteJob(job_.name),
        control->OpenSession(session, 1).status(),
        control->CloseSession(session, UINT64_MAX).status(),
        control->Checkpoint(CheckpointRequest()).status(),
        control->ReduceRate(ReduceRateRequest()).status(),
        control->Vector(vector).status(),
    };
    for (const absl::Status& status : refused) {
      EXPECT_THAT(status,
                  StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("joined as coordinator")))
          << RoleName(role);
    }
    EXPECT_EQ(control->GetStatus("test").ok(), role != Role::kPs) << RoleName(role);
  }
  EXPECT_EQ(shards_->server(0)->GetStatus().job_size(), 1);
}

TEST_F(SecuredShardTest, WhoIsThrownOutIsCutOffInTheMiddle) {
  ASSERT_OK(Client(ReadOnly(), Role::kOperator)->Write(Vector(job_.map.size(), 0.5f)));
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions session, shards_->OpenSession(job_, 0));
  const std::shared_ptr<Tls> worker = shards_->TlsOf(Role::kWorker, "7");
  session.tls = worker;
  session.deadline = absl::Seconds(1);
  ASSERT_OK_AND_ASSIGN(const auto client, ParameterClient::Create(session));
  const Vector gradient(job_.map.size(), 1.0f);
  ASSERT_OK(client->Push(gradient, {}).status());
  MemberKey key;
  key.set_fingerprint(worker->self_fingerprint());
  key.set_not_after_ms(absl::ToUnixMillis(absl::Now() + absl::Hours(1)));
  const Revocations revoked = MakeRevocations({key});
  ASSERT_OK(shards_->control(0)->GetStatus("test", std::nullopt, &revoked));
  EXPECT_THAT(client->Push(gradient, {}).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("thrown out")));
  EXPECT_EQ(shards_->server(0)->GetStatus().job(0).applied(), 16u);
}

TEST_F(SecuredShardTest, WithoutACertificateThereIsNothing) {
  ParameterClientOptions plain = ReadOnly();
  plain.deadline = absl::Milliseconds(500);
  ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(std::move(plain)));
  Vector parameters(job_.map.size());
  EXPECT_FALSE(client->Fetch(parameters, nullptr, nullptr).ok());
  EXPECT_FALSE(ShardControl::Create(shards_->addresses()[0], kDeadline)->GetStatus("test").ok());
}

}  // namespace
}  // namespace monsoon
