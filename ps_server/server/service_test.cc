#include "ps_server/server/service.h"

#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/security/digest.h"
#include "common/security/identity.h"
#include "common/security/revocations.h"
#include "common/storage/storage.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/fault.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/revocations.pb.h"
#include "ps_server/server/shard_frame_handler.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

class ServiceTest : public ::testing::Test {
 protected:
  // As a call of this caller arrives.
  absl::StatusOr<ShardStatusReply> GetStatus(const Caller& caller,
                                             const ShardStatusRequest& request) {
    for (const CallTable::Call& call : calls_.calls()) {
      if (call.method == "/monsoon.ParameterServer/GetStatus") {
        const absl::StatusOr<std::string> bytes = call.serve(caller, request.SerializeAsString());
        ShardStatusReply reply;
        EXPECT_TRUE(!bytes.ok() || reply.ParseFromString(*bytes));
        return bytes.ok() ? absl::StatusOr<ShardStatusReply>(reply) : bytes.status();
      }
    }
    return absl::NotFoundError("no such call");
  }
  static Caller Member(Role role) {
    Caller caller = {.address = "ipv4:10.0.0.5:1"};
    caller.member.emplace().identity = {role, "0", "lab", ""};
    return caller;
  }

  Shard shard_{ShardOptions{"lab", 0, 7, 1 << 20}};
  ShardFrameHandler handler_{&shard_};
  FrameServer frames_{&handler_, 1 << 20, FaultOptions()};
  HeardJournal journal_{PosixStorage(), ""};
  KeptRevocations revoked_{PosixStorage(), "", Clock::Real()->WallTime()};
  LatestText trouble_;
  ParameterServerService service_{{.shard = &shard_,
                                   .journal = &journal_,
                                   .revoked = &revoked_,
                                   .frames = &frames_,
                                   .message_memory_bytes = 1 << 20,
                                   .shared_memory = [] { return SharedMemoryOffer(); },
                                   .trouble = &trouble_}};
  CallTable calls_ = service_.Calls();
};

TEST_F(ServiceTest, TheCoordinatorAloneSaysWhoIsThrownOut) {
  MemberKey key;
  key.set_fingerprint(Sha256("key"));
  key.set_not_after_ms(absl::ToUnixMillis(Clock::Real()->WallTime() + absl::Hours(1)));
  ShardStatusRequest request;
  *request.mutable_revoked() = MakeRevocations({key});
  for (const Caller& caller : {Member(Role::kWorker), Member(Role::kOperator), Caller()}) {
    EXPECT_THAT(GetStatus(caller, request),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("is not the coordinator")));
    ASSERT_OK_AND_ASSIGN(const ShardStatusReply reply, GetStatus(caller, {}));
    EXPECT_EQ(reply.revoked_version(), 0u);
  }
  EXPECT_FALSE(revoked_.Contains(key.fingerprint()));
  ASSERT_OK_AND_ASSIGN(ShardStatusReply reply, GetStatus(Member(Role::kCoordinator), request));
  EXPECT_EQ(reply.revoked_version(), request.revoked().version());
  EXPECT_TRUE(revoked_.Contains(key.fingerprint()));
  // On a server that asks nobody who he is.
  request.mutable_revoked()->Clear();
  ASSERT_OK_AND_ASSIGN(reply, GetStatus({.open = true}, request));
  EXPECT_EQ(reply.revoked_version(), 0u);
}

}  // namespace
}  // namespace monsoon
