// What each member of a cluster can do to a shard over TLS: all methods and all kinds of frames.
#include "common/security/access.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "common/base/status.h"
#include "common/security/member_id.h"
#include "common/security/revocations.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/frame/frame_transport.h"
#include "common/transport/grpc/grpc_frame_transport.h"
#include "common/transport/grpc/tls.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "proto/tensor.pb.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
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
        control->Adopt(AdoptRequest()).status(),
        control->ChangeSettings(ChangeSettingsRequest()).status(),
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

// ---- whose session, and which job ------------------------------------------------

// A message of each kind that speaks for a session, of this one.
std::vector<DataHeader> OfEachKind(const ParameterClientOptions& options) {
  std::vector<DataHeader> requests;
  const google::protobuf::OneofDescriptor& kinds = *DataHeader::descriptor()->oneof_decl(0);
  for (int i = 0; i < kinds.field_count(); ++i) {
    const auto* const field = kinds.field(i)->message_type()->FindFieldByName("session");
    if (field == nullptr) {
      continue;
    }
    DataHeader& request = requests.emplace_back();
    request.set_request_id(1);
    google::protobuf::Message* const message =
        request.GetReflection()->MutableMessage(&request, kinds.field(i));
    SessionKey session;
    session.set_job(options.job);
    session.set_worker(options.worker);
    session.set_incarnation(options.incarnation);
    message->GetReflection()->MutableMessage(message, field)->CopyFrom(session);
  }
  return requests;
}

// What the shard's answer says was wrong with it.
absl::Status Ask(FrameTransport* transport, const DataHeader& request) {
  transport->Send(0, {.head = std::make_shared<const std::string>(EncodeFrameHead(request))});
  const FrameTransport::Event event = transport->Wait(kDeadline);
  DataHeader answer;
  if (event.kind != FrameTransport::Event::Kind::kReceived) {
    return absl::UnavailableError("no answer came");
  }
  ChunkCursor cursor(event.frame, /*finite=*/false);
  RETURN_IF_ERROR(DecodeFrameHead(&cursor, &answer));
  transport->Reset(0);
  return {static_cast<absl::StatusCode>(answer.error().code()), answer.error().message()};
}

class SessionOfAMemberTest : public SecuredShardTest {
 protected:
  void SetUp() override {
    SecuredShardTest::SetUp();
    ASSERT_OK(Client(ReadOnly(), Role::kOperator)->Write(Vector(job_.map.size(), 0.5f)));
    owner_ = shards_->TlsOf(Role::kWorker, "7");
    shards_->SetOwner(ToProto({owner_->self(), owner_->self_fingerprint()}));
    ASSERT_OK_AND_ASSIGN(session_, shards_->OpenSession(job_, 0));
  }

  absl::Status Push(const std::shared_ptr<Tls>& tls) {
    ParameterClientOptions options = session_;
    options.tls = tls;
    ASSIGN_OR_RETURN(const auto client, ParameterClient::Create(std::move(options)));
    return client->Push(Vector(job_.map.size(), 1.0f), {}).status();
  }

  std::shared_ptr<Tls> Worker(const std::string& name, const std::string& job = "") {
    return shards_->TlsOf(Role::kWorker, name, job);
  }
  std::shared_ptr<Tls> owner_;
  ParameterClientOptions session_;
};

TEST_F(SessionOfAMemberTest, EachKindOfFrameIsItsWorkersAlone) {
  const struct {
    const char* name;
    std::shared_ptr<Tls> tls;
    bool may;
  } kCallers[] = {
      {"its worker", owner_, true},
      {"another worker", Worker("8"), false},
      {"a later one of its name", Worker("7"), false},
      {"another job's worker", Worker("7", "lenet-2"), false},
      {"this job's worker", Worker("guest", job_.name), false},
      {"an operator", shards_->TlsOf(Role::kOperator, "7"), false},
      {"a viewer", shards_->TlsOf(Role::kViewer, "7"), false},
  };
  size_t cells = 0;
  size_t wrong = 0;
  for (const auto& caller : kCallers) {
    const auto transport =
        MakeGrpcTransport({shards_->addresses()[0]}, caller.tls, /*connections=*/1, Role::kPs);
    for (const DataHeader& request : OfEachKind(session_)) {
      const absl::Status status = Ask(transport.get(), request);
      const bool right = absl::IsPermissionDenied(status) != caller.may;
      EXPECT_TRUE(right) << caller.name << ": " << request.ShortDebugString() << ": " << status;
      ++cells;
      wrong += right ? 0 : 1;
    }
  }
  std::printf("  sessions: %zu wrong cells of %zu\n", wrong, cells);
}

TEST_F(SessionOfAMemberTest, WhoPushesUnderAnothersIsToldWhoseItIs) {
  EXPECT_THAT(Push(Worker("8")),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("the session of worker/0#1 is worker/7's"),
                             HasSubstr("from worker/8"))));
  EXPECT_EQ(shards_->server(0)->GetStatus().job(0).applied(), 0u);
  EXPECT_OK(Push(owner_));
  EXPECT_EQ(shards_->server(0)->GetStatus().job(0).applied(), 16u);
}

TEST_F(SessionOfAMemberTest, ASessionThatIsNotOpenIsNobodys) {
  ParameterClientOptions later = session_;
  later.incarnation = 2;
  for (const auto& tls : {owner_, Worker("8")}) {
    later.tls = tls;
    ASSERT_OK_AND_ASSIGN(const auto client, ParameterClient::Create(later));
    EXPECT_TRUE(IsSessionLost(client->Push(Vector(job_.map.size()), {}).status()));
  }
}

TEST_F(SessionOfAMemberTest, AnotherJobsParametersAreNotForWhoIsThereForOne) {
  for (const Role role : {Role::kWorker, Role::kOperator, Role::kViewer}) {
    for (const bool its_own : {true, false}) {
      ParameterClientOptions options = ReadOnly();
      options.tls = shards_->TlsOf(role, "1", its_own ? job_.name : "lenet-2");
      options.deadline = kDeadline;
      ASSERT_OK_AND_ASSIGN(const auto client, ParameterClient::Create(std::move(options)));
      Vector parameters(job_.map.size());
      const absl::Status read = client->Fetch(parameters, nullptr, nullptr);
      const absl::Status written = client->Write(parameters);
      EXPECT_EQ(read.ok(), its_own) << RoleName(role) << ": " << read;
      EXPECT_EQ(parameters[0], its_own ? 0.5f : 0.0f);
      EXPECT_EQ(absl::IsPermissionDenied(written), !its_own || role == Role::kViewer) << written;
      if (!its_own) {
        EXPECT_THAT(read, StatusIs(absl::StatusCode::kPermissionDenied,
                                   HasSubstr("has joined for job lenet-2 alone")));
      }
    }
  }
}

TEST_F(SessionOfAMemberTest, SharedMemoryIsThisUsersWhateverItsCertificateSays) {
  session_.transport = Transport::SHARED_MEMORY;
  EXPECT_OK(Push(Worker("8")));
  EXPECT_EQ(shards_->server(0)->GetStatus().job(0).applied(), 16u);
}

TEST_F(SecuredShardTest, ARestoredSessionIsItsMembers) {
  const std::string folder = ::testing::TempDir() + "/" + testing::UniqueName();
  ASSERT_OK_AND_ASSIGN(
      shards_, TestShards::Start(
                   {.link = TestLink::kTls, .transport = Transport::GRPC, .state_dir = folder}));
  ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(SmallJob()));
  const std::shared_ptr<Tls> owner = shards_->TlsOf(Role::kWorker, "7");
  shards_->SetOwner(ToProto({owner->self(), owner->self_fingerprint()}));
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions session, shards_->OpenSession(job_, 0));
  ASSERT_OK(shards_->Checkpoint(job_.name, 1));
  ASSERT_OK(shards_->Restart(0));
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply restored, shards_->Restore(SmallJob(), 0));
  session.shard_epochs = {restored.shard_epoch()};
  session.addresses = shards_->addresses();
  session.tls = shards_->TlsOf(Role::kWorker, "8");
  ASSERT_OK_AND_ASSIGN(const auto other, ParameterClient::Create(session));
  EXPECT_THAT(other->Push(Vector(job_.map.size(), 1.0f), {}),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("is worker/7's")));
  session.tls = owner;
  ASSERT_OK_AND_ASSIGN(const auto its_own, ParameterClient::Create(session));
  EXPECT_OK(its_own->Push(Vector(job_.map.size(), 1.0f), {}).status());
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
