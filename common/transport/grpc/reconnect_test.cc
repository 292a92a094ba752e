#include "common/transport/grpc/reconnect.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/process/unique_fd.h"
#include "common/testing/socket_folder.h"
#include "common/transport/grpc/channel.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

// Answers each connection with HTTP/2's first frame, after which a client is connected. Not
// a server of gRPC, whose threads would do the client's work, too.
class PlainServer {
 public:
  explicit PlainServer(const std::string& path) : listener_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    CHECK_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    CHECK_EQ(listen(listener_.get(), 16), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~PlainServer() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

 private:
  void Run() {
    constexpr char kSettings[] = "\0\0\0\4\0\0\0\0";  // and the end of the string
    for (UniqueFd peer(accept(listener_.get(), nullptr, nullptr)); peer.valid();
         peer.reset(accept(listener_.get(), nullptr, nullptr))) {
      CHECK_EQ(send(peer.get(), kSettings, 9, MSG_NOSIGNAL), 9);
      peers_.push_back(std::move(peer));
    }
  }

  UniqueFd listener_;
  std::vector<UniqueFd> peers_;
  std::thread thread_;
};

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
  const std::string address_ = testing::UniqueSocketAddress();
  const std::string path_ = address_.substr(address_.find(':') + 1);
};

TEST_F(ReconnectTest, AChannelComesUpWhileNobodyCalls) {
  const std::shared_ptr<grpc::Channel> channel = MakeChannel(address_);
  // Nobody listens yet.
  EXPECT_FALSE(channel->WaitForConnected(gpr_time_from_millis(300, GPR_TIMESPAN)));
  ASSERT_EQ(channel->GetState(false), GRPC_CHANNEL_TRANSIENT_FAILURE);
  KeepConnecting(channel);
  KeepConnecting(channel);  // each call that fails asks again
  const PlainServer server(path_);
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
