#include "common/transport/grpc/call_service.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/process/unique_fd.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/fault.h"
#include "common/transport/grpc/call_bytes.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/conduct.h"
#include "common/transport/grpc/rpc_server.h"
#include "common/transport/grpc/status_conversion.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(20);

// A call of bytes; it waits for the server.
absl::StatusOr<std::string> Call(const std::shared_ptr<grpc::Channel>& channel,
                                 const std::string& method, const std::string& request,
                                 absl::Duration deadline = kPatience) {
  return CallBytes(channel, method, request, deadline, /*waits=*/true);
}

// Calls of /test/Hold do not end before Release.
class Held {
 public:
  ~Held() { Release(); }

  void AddTo(CallTable* calls) {
    calls->AddBytes("/test/Echo",
                    [](const Caller&, absl::string_view request) { return std::string(request); });
    calls->AddBytes("/test/Hold", [this](const Caller&, absl::string_view request) {
      {
        MutexLock lock(&mutex_);
        ++begun_;
      }
      changed_.NotifyAll();
      released_.wait();
      return std::string(request);
    });
  }
  bool AwaitBegun(int count, absl::Duration timeout = kPatience) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, timeout, [&] {
      mutex_.AssertHeld();
      return begun_ >= count;
    });
  }
  int begun() {
    MutexLock lock(&mutex_);
    return begun_;
  }
  void Release() {
    if (!std::exchange(is_released_, true)) {
      release_.set_value();
    }
  }

 private:
  std::promise<void> release_;
  const std::shared_future<void> released_ = release_.get_future().share();
  bool is_released_ = false;
  Mutex mutex_;
  CondVar changed_;
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
};

// HTTP/2 written by hand (RFC 9113), for what gRPC's own client does not do.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    Send(absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Frame(kSettings, 0, 0, ""),
                      Frame(kSettings, kAck, 0, "")));
    reader_ = std::jthread([this] {
      char bytes[4096];
      while (recv(socket_.get(), bytes, sizeof(bytes), 0) > 0) {
      }
      cut_ = true;
    });
  }
  ~RawClient() { shutdown(socket_.get(), SHUT_RDWR); }

  // Begins a call whose request does not come.
  void Open(const std::string& method) {
    Send(Frame(kHeaders, kEndHeaders, stream_, Headers(method)));
    stream_ += 2;
  }
  void Call(const std::string& method) { Send(NextCall(method)); }
  // Takes back the last call.
  void Reset() { Send(ResetOfLast()); }
  // Calls that come together with their ends.
  void CallInVain(const std::string& method, int calls) {
    std::string bytes;
    for (int i = 0; i < calls; ++i) {
      absl::StrAppend(&bytes, NextCall(method));
      absl::StrAppend(&bytes, ResetOfLast());
    }
    Send(bytes);
  }
  // The server has ended the connection.
  bool IsCut() const { return cut_; }

 private:
  enum : char { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4 };
  enum : char { kAck = 1, kEndStream = 1, kEndHeaders = 4 };

  std::string NextCall(const std::string& method) {
    const uint32_t stream = std::exchange(stream_, stream_ + 2);
    return absl::StrCat(Frame(kHeaders, kEndHeaders, stream, Headers(method)),
                        Frame(kData, kEndStream, stream, std::string(5, '\0')));
  }
  std::string ResetOfLast() const {
    return Frame(kReset, 0, stream_ - 2, std::string("\0\0\0\x08", 4));
  }
  static std::string Frame(char kind, char flags, uint32_t stream, const std::string& payload) {
    const uint32_t length = htonl(static_cast<uint32_t>(payload.size()) << 8);
    stream = htonl(stream);
    return absl::StrCat(std::string(reinterpret_cast<const char*>(&length), 3),
                        std::string{kind, flags},
                        std::string(reinterpret_cast<const char*>(&stream), 4), payload);
  }
  // Literals that no table keeps (RFC 7541).
  static std::string Headers(const std::string& method) {
    std::string block;
    for (const auto& [name, value] : {std::pair<std::string, std::string>{":method", "POST"},
                                      {":scheme", "http"},
                                      {":path", method},
                                      {":authority", "a"},
                                      {"te", "trailers"},
                                      {"content-type", "application/grpc"}}) {
      absl::StrAppend(&block, std::string{'\0', static_cast<char>(name.size())}, name,
                      std::string{static_cast<char>(value.size())}, value);
    }
    return block;
  }
  void Send(const std::string& bytes) {
    cut_ = cut_ || send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0;
  }

  const UniqueFd socket_;
  uint32_t stream_ = 1;
  std::atomic<bool> cut_{false};
  std::jthread reader_;
};

size_t ThreadsOfThisProcess() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

class CallServiceTest : public ::testing::Test {
 protected:
  void Start(const CallLimits& limits, CallTable calls = {}) {
    held_.AddTo(&calls);
    ASSERT_OK_AND_ASSIGN(
        server_,
        RpcServer::Start({.address = "127.0.0.1:0", .call_limits = limits}, std::move(calls)));
    channel_ = MakeChannel(server_->address());
  }
  // What comes back, or why nothing does.
  std::string Echo(const std::string& text) {
    const absl::StatusOr<std::string> reply = Call(channel_, "/test/Echo", text);
    return reply.ok() ? *reply : reply.status().ToString();
  }
  void TearDown() override {
    held_.Release();
    server_.reset();
  }

  Held held_;
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(CallServiceTest, AnswersAndRefuses) {
  FaultInjector faults({});
  CallTable calls;
  calls.Add<JobRequest>("/test/Start", &faults,
                        [](const JobRequest& request) -> absl::StatusOr<JobSummary> {
                          if (request.job() == "none") {
                            return absl::NotFoundError("no such job");
                          }
                          JobSummary summary;
                          summary.set_job(request.job());
                          return summary;
                        });
  Start({}, std::move(calls));
  JobRequest request;
  request.set_job(std::string(1000, 'x'));
  EXPECT_THAT(Call(channel_, "/test/Start", request.SerializeAsString()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("job has 1000 bytes; at most 256 are taken")));
  request.set_job("gpt-1");
  ASSERT_OK_AND_ASSIGN(const std::string reply,
                       Call(channel_, "/test/Start", request.SerializeAsString()));
  JobSummary summary;
  EXPECT_TRUE(summary.ParseFromString(reply));
  EXPECT_EQ(summary.job(), "gpt-1");
  request.set_job("none");
  EXPECT_THAT(Call(channel_, "/test/Start", request.SerializeAsString()),
              StatusIs(absl::StatusCode::kNotFound, "no such job"));
  EXPECT_THAT(Call(channel_, "/test/Start", "\x0a\x03\xff\xff\xff"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("cannot be read")));
  EXPECT_THAT(Call(channel_, "/test/Other", ""),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("does not know this call")));
  EXPECT_EQ(Echo(""), "");
}

TEST_F(CallServiceTest, ServesNoCallWhoseClientWaitsNoLonger) {
  Start({.threads = 1});
  std::thread first([this] { EXPECT_OK(Call(channel_, "/test/Hold", "")); });
  ASSERT_TRUE(held_.AwaitBegun(1));
  EXPECT_THAT(Call(channel_, "/test/Hold", "", absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
  // This one comes behind the end of that one, and needs no thread of calls.
  EXPECT_THAT(Call(channel_, "/test/Other", ""),
              StatusIs(absl::StatusCode::kUnimplemented, ::testing::_));
  held_.Release();
  first.join();
  EXPECT_OK(Call(channel_, "/test/Echo", ""));
  EXPECT_EQ(held_.begun(), 1);
}

// A client may take back its calls and make new ones, while those that it has taken back are
// still being served.
TEST_F(CallServiceTest, CallsThatAreTakenBackTakeFewThreads) {
  constexpr int kOfPeer = 8;
  Start({.threads = 32, .calls_of_peer = kOfPeer});
  ASSERT_EQ(Echo(""), "");
  const size_t before = ThreadsOfThisProcess();
  RawClient hostile(server_->port());
  for (int i = 1; i <= 300; ++i) {
    hostile.Call("/test/Hold");
    if (i <= kOfPeer) {
      ASSERT_TRUE(held_.AwaitBegun(i));
    }
    hostile.Reset();
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Echo("honest"), "honest");
  }
  EXPECT_EQ(held_.begun(), kOfPeer);
  EXPECT_LE(ThreadsOfThisProcess(), before + kOfPeer + 2);
}

TEST_F(CallServiceTest, AClientThatTakesBackCallsAllTheTimeIsCutOff) {
  constexpr int kMost = 1000;
  Start({.threads = kMost, .calls_of_peer = kMost});
  RawClient hostile(server_->port());
  int calls = 0;
  for (; calls < kMost && !hostile.IsCut(); ++calls) {
    hostile.Call("/test/Hold");
    while (!held_.AwaitBegun(calls + 1, absl::Milliseconds(10)) && !hostile.IsCut()) {
    }
    hostile.Reset();
  }
  EXPECT_TRUE(hostile.IsCut());
  // Some may be counted before their own ends are known here.
  EXPECT_GT(calls, Conduct::kMost / 2);
  EXPECT_EQ(Echo("honest"), "honest");
}

// gRPC shows none of these to whoever serves calls.
TEST_F(CallServiceTest, AClientWhoseCallsEndWithTheirRequestsIsCutOff) {
  Start({});
  RawClient hostile(server_->port());
  for (int burst = 0; burst < 5000 && !hostile.IsCut(); ++burst) {
    hostile.CallInVain("/test/Echo", 20);
    EXPECT_EQ(Echo("honest"), "honest");
  }
  EXPECT_TRUE(hostile.IsCut());
}

TEST_F(CallServiceTest, UnknownCallsMayBeTakenBack) {
  Start({});
  for (int client = 0; client < 4; ++client) {
    RawClient hostile(server_->port());
    for (int i = 0; i < 2000; ++i) {
      hostile.Call("/test/Other");
      hostile.Reset();
    }
    EXPECT_EQ(Echo("honest"), "honest");
  }
  EXPECT_THAT(Call(channel_, "/test/Other", ""),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("does not know this call")));
}

TEST_F(CallServiceTest, CallsWhoseRequestDoesNotComeTakeNothing) {
  Start({.threads = 1, .calls_of_peer = 2, .calls = 4});
  RawClient hostile(server_->port()), other(server_->port());
  for (int i = 0; i < 16; ++i) {
    hostile.Open("/test/Echo");
    other.Open("/test/Echo");
    EXPECT_EQ(Echo("honest"), "honest");
  }
}

TEST_F(CallServiceTest, AShutdownWaitsForWhatIsBeingServed) {
  Start({});
  std::thread call([this] { EXPECT_OK(Call(channel_, "/test/Hold", "")); });
  ASSERT_TRUE(held_.AwaitBegun(1));
  std::thread end([this] { server_->Shutdown(kPatience); });
  held_.Release();
  call.join();
  end.join();
}

}  // namespace
}  // namespace monsoon
