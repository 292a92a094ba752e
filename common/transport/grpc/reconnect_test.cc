#include "common/transport/grpc/reconnect.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/rpc_server.h"
#include "grpcpp/impl/service_type.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

class EmptyService : public grpc::Service {};

// Looks at the state alone: nothing of gRPC is waited for.
bool ComesTo(grpc_connectivity_state state, const std::shared_ptr<grpc::Channel>& channel,
             absl::Duration within) {
  const absl::Time end = absl::Now() + within;
  while (channel->GetState(/*try_to_connect=*/false) != state) {
    if (absl::Now() > end) {
      return false;
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

class ReconnectTest : public ::testing::Test {
 protected:
  void StartServer() {
    absl::StatusOr<std::unique_ptr<RpcServer>> server =
        RpcServer::Start({.address = address_}, {&service_});
    ASSERT_OK(server);
    server_ = *std::move(server);
  }

  EmptyService service_;
  const std::string address_ = absl::StrCat("unix-abstract:reconnect-test-", testing::UniqueName());
  std::unique_ptr<RpcServer> server_;
};

TEST_F(ReconnectTest, AChannelComesUpWhileNobodyCalls) {
  const std::shared_ptr<grpc::Channel> channel = MakeChannel(address_);
  // Nobody listens yet.
  EXPECT_FALSE(channel->WaitForConnected(gpr_time_from_millis(300, GPR_TIMESPAN)));
  ASSERT_EQ(channel->GetState(false), GRPC_CHANNEL_TRANSIENT_FAILURE);
  KeepConnecting(channel);
  KeepConnecting(channel);  // each call that fails asks again
  StartServer();
  // A look comes once a second; without the thread most of them time out unseen.
  EXPECT_TRUE(ComesTo(GRPC_CHANNEL_READY, channel, absl::Seconds(3)));
}

TEST_F(ReconnectTest, AChannelThatIsGivenUpGoes) {
  std::shared_ptr<grpc::Channel> channel = MakeChannel(address_);
  EXPECT_FALSE(channel->WaitForConnected(gpr_time_from_millis(50, GPR_TIMESPAN)));
  KeepConnecting(channel);
  const std::weak_ptr<grpc::Channel> gone = channel;
  channel.reset();
  const absl::Time end = absl::Now() + absl::Seconds(10);
  while (!gone.expired() && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_TRUE(gone.expired());
}

}  // namespace
}  // namespace monsoon
