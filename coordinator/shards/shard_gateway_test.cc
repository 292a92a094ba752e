#include "coordinator/shards/shard_gateway.h"

#include <string>
#include <utility>

#include "common/testing/status_matchers.h"
#include "common/transport/grpc/call_table.h"
#include "common/transport/grpc/rpc_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

// Makes slices, and answers nothing else.
class MakingGateway : public ShardGateway {
 public:
  explicit MakingGateway(bool earlier_build) : earlier_build_(earlier_build) {}

  absl::StatusOr<CreateShardJobReply> CreateJob(const CreateShardJobRequest& request) override {
    CreateShardJobReply reply;
    reply.set_shard_epoch(7);
    reply.set_from_source(request.has_source() && !earlier_build_);
    return reply;
  }
  absl::StatusOr<ShardStatusReply> GetStatus() override { return absl::UnavailableError(""); }
  absl::StatusOr<RestoreShardJobReply> RestoreJob(const RestoreShardJobRequest&) override {
    return absl::UnavailableError("");
  }
  absl::Status DeleteJob(const std::string&, uint64_t, uint64_t, uint64_t) override {
    return absl::UnavailableError("");
  }
  absl::StatusOr<OpenSessionReply> OpenSession(const SessionKey&, uint64_t, uint64_t,
                                               const MemberIdentity&) override {
    return absl::UnavailableError("");
  }
  absl::StatusOr<CloseSessionReply> CloseSession(const SessionKey&, uint64_t, uint64_t) override {
    return absl::UnavailableError("");
  }
  absl::Status Checkpoint(const CheckpointRequest&) override { return absl::UnavailableError(""); }
  absl::Status ReduceRate(const ReduceRateRequest&) override { return absl::UnavailableError(""); }
  absl::StatusOr<ChangeSettingsReply> ChangeSettings(const ChangeSettingsRequest&) override {
    return absl::UnavailableError("");
  }
  absl::StatusOr<VectorReply> Vector(const VectorRequest&) override {
    return absl::UnavailableError("");
  }

 private:
  const bool earlier_build_;
};

TEST(CarryOutTest, AShardThatDoesNotKnowOfASourceHasMadeZeros) {
  ShardCommand command;
  command.create.set_job("gpt-2");
  MakingGateway earlier(/*earlier_build=*/true);
  ShardAnswer answer = CarryOut(command, &earlier);
  EXPECT_OK(answer.status);
  EXPECT_EQ(answer.shard_epoch, 7u);
  command.create.mutable_source()->set_job("gpt-1");
  answer = CarryOut(command, &earlier);
  EXPECT_THAT(answer.status,
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("has not made its slice from that of gpt-1, since it is of an "
                                 "earlier build")));
  EXPECT_EQ(answer.shard_epoch, 0u);
  MakingGateway present(/*earlier_build=*/false);
  answer = CarryOut(command, &present);
  EXPECT_OK(answer.status);
  EXPECT_EQ(answer.shard_epoch, 7u);
}

TEST(CarryOutTest, ASessionIsOpenedAsItsMembers) {
  OpenSessionRequest heard;
  CallTable calls;
  calls.AddBytes("/monsoon.ParameterServer/OpenSession",
                 [&](const Caller&, absl::string_view request) -> absl::StatusOr<std::string> {
                   EXPECT_TRUE(heard.ParseFromString(std::string(request)));
                   return OpenSessionReply().SerializeAsString();
                 });
  ASSERT_OK_AND_ASSIGN(const auto server,
                       RpcServer::Start({.address = "127.0.0.1:0"}, std::move(calls), nullptr));
  const auto gateway = MakeShardGateway({.address = server->address(),
                                         .cluster = "test",
                                         .status_deadline = absl::Seconds(20),
                                         .session_deadline = absl::Seconds(20),
                                         .job_deadline = absl::Seconds(20)});
  ShardCommand command;
  command.kind = ShardCommand::Kind::kOpenSession;
  command.session.set_job("lenet-1");
  command.term = 5;
  command.member.set_identity("monsoon://test/worker/7");
  command.member.set_key(std::string(32, 'a'));
  EXPECT_OK(CarryOut(command, gateway.get()).status);
  EXPECT_EQ(heard.session().job(), "lenet-1");
  EXPECT_EQ(heard.term(), 5u);
  EXPECT_EQ(heard.member().SerializeAsString(), command.member.SerializeAsString());
}

TEST(CarryOutTest, AWriteIsAdoptedAsOrdered) {
  AdoptRequest heard;
  CallTable calls;
  calls.AddBytes("/monsoon.ParameterServer/Adopt",
                 [&](const Caller&, absl::string_view request) -> absl::StatusOr<std::string> {
                   EXPECT_TRUE(heard.ParseFromString(std::string(request)));
                   if (heard.write() > 3) {
                     return absl::FailedPreconditionError("write 4 is not here whole");
                   }
                   return AdoptReply().SerializeAsString();
                 });
  ASSERT_OK_AND_ASSIGN(const auto server,
                       RpcServer::Start({.address = "127.0.0.1:0"}, std::move(calls), nullptr));
  const auto gateway = MakeShardGateway({.address = server->address(),
                                         .cluster = "test",
                                         .status_deadline = absl::Seconds(20),
                                         .session_deadline = absl::Seconds(20),
                                         .job_deadline = absl::Seconds(20)});
  ShardCommand command;
  command.kind = ShardCommand::Kind::kAdopt;
  command.adopt.set_job("lenet-1");
  command.adopt.set_job_term(2);
  command.adopt.set_term(5);
  command.adopt.set_write(3);
  EXPECT_OK(CarryOut(command, gateway.get()).status);
  EXPECT_EQ(heard.SerializeAsString(), command.adopt.SerializeAsString());
  command.adopt.set_write(4);
  EXPECT_THAT(CarryOut(command, gateway.get()).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not here whole")));
}

}  // namespace
}  // namespace monsoon
