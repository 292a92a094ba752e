#include "common/transport/grpc/reconnect.h"

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/rpc_server.h"
#include "grpcpp/impl/service_type.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

class EmptyService : public grpc::Service {};

// Looks at it again and again: nothing of gRPC is waited for, which would do its work.
bool Becomes(absl::FunctionRef<bool()> is, absl::Duration within) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  for (absl::Duration waited; !is(); waited += absl::Milliseconds(5)) {
    if (waited > within) {
      return false;
    }
    never.WaitFor(&mutex, absl::Milliseconds(5));
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
  EXPECT_TRUE(
      Becomes([&] { return channel->GetState(false) == GRPC_CHANNEL_READY; }, absl::Seconds(3)));
}

TEST_F(ReconnectTest, AChannelThatIsGivenUpGoes) {
  std::shared_ptr<grpc::Channel> channel = MakeChannel(address_);
  EXPECT_FALSE(channel->WaitForConnected(gpr_time_from_millis(50, GPR_TIMESPAN)));
  KeepConnecting(channel);
  const std::weak_ptr<grpc::Channel> gone = channel;
  channel.reset();
  EXPECT_TRUE(Becomes([&] { return gone.expired(); }, absl::Seconds(10)));
}

}  // namespace
}  // namespace monsoon
