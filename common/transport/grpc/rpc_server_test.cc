#include "common/transport/grpc/rpc_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/process/port_file.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/transport/grpc/call_bytes.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/status_conversion.h"
#include "gmock/gmock.h"
#include "grpc/grpc.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A socket that listens at ::1; -1 on a machine without IPv6.
int ListenAtSix(int* port) {
  const int six = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  socklen_t length = sizeof(address);
  if (six < 0 || bind(six, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    return -1;
  }
  EXPECT_EQ(listen(six, 1), 0);
  EXPECT_EQ(getsockname(six, reinterpret_cast<sockaddr*>(&address), &length), 0);
  *port = ntohs(address.sin6_port);
  return six;
}

TEST(RpcServerTest, TakesAFreePortAndRefusesToShareIt) {
  ASSERT_OK_AND_ASSIGN(auto first, RpcServer::Start({.address = "localhost:0"}, {}));
  EXPECT_GT(first->port(), 0);
  EXPECT_EQ(first->address(), absl::StrCat("localhost:", first->port()));
  EXPECT_THAT(RpcServer::Start({.address = first->address()}, {}),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(first->address()), HasSubstr("in use"))));
}

// gRPC is content with one of a name's addresses; a client may take the other.
TEST(RpcServerTest, RefusesANameThatIsInUseAtOneOfItsAddresses) {
  int port = 0;
  const int six = ListenAtSix(&port);
  if (six < 0) {
    GTEST_SKIP() << "needs IPv6";
  }
  EXPECT_THAT(RpcServer::Start({.address = absl::StrCat("localhost:", port)}, {}),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("cannot listen on localhost:", port, ": [::1]:", port,
                                    " is in use by another process")));
  // Each address alone is what it was.
  EXPECT_OK(RpcServer::Start({.address = absl::StrCat("127.0.0.1:", port)}, {}));
  close(six);
}

TEST(RpcServerTest, ServesAllAddressesOfAName) {
  ASSERT_OK_AND_ASSIGN(auto server, RpcServer::Start({.address = "localhost:0"}, {}));
  int port = 0;
  const int six = ListenAtSix(&port);
  for (const std::string host : {"127.0.0.1", six < 0 ? "127.0.0.1" : "[::1]"}) {
    const auto channel = MakeChannel(absl::StrCat(host, ":", server->port()));
    EXPECT_TRUE(channel->WaitForConnected(gpr_time_from_seconds(10, GPR_TIMESPAN))) << host;
  }
  close(six);
}

// The kernel frees a killed process's memory before it closes its sockets.
TEST(RpcServerTest, TakesThePortOfAProcessThatIsBeingKilled) {
  constexpr size_t kBytes = size_t{512} << 20;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto* memory = static_cast<char*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; memory != MAP_FAILED && i < kBytes; i += 4096) {
      memory[i] = 1;
    }
    const ssize_t written = write(ready[1], "x", 1);
    pause();
    _exit(written == 1 ? 0 : 1);
  }
  close(listener);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  const std::string text = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  EXPECT_OK(RpcServer::Start({.address = text}, {}));
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  close(ready[0]);
  close(ready[1]);
}

TEST(RpcServerTest, ServesUnixSockets) {
  const std::string address = testing::UniqueSocketAddress();
  ASSERT_OK_AND_ASSIGN(auto server, RpcServer::Start({.address = address}, {}));
  EXPECT_EQ(server->address(), address);
  EXPECT_EQ(server->port(), 0);
  const auto channel = MakeChannel(address);
  EXPECT_TRUE(channel->WaitForConnected(gpr_time_from_seconds(10, GPR_TIMESPAN)));
}

TEST(RpcServerTest, ASocketThatIsInUseIsWaitedForAndKept) {
  const std::string address = testing::UniqueSocketAddress();
  ASSERT_OK_AND_ASSIGN(auto server, RpcServer::Start({.address = address}, {}));
  EXPECT_THAT(RpcServer::Start({.address = address}, {}),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("cannot listen on ", address,
                                    ": the socket is in use by another process")));
  const auto channel = MakeChannel(address);
  EXPECT_TRUE(channel->WaitForConnected(gpr_time_from_seconds(10, GPR_TIMESPAN)));
  server.reset();
  EXPECT_NE(access(address.substr(address.find(':') + 1).c_str(), F_OK), 0);
}

TEST(RpcServerTest, SaysWhatItCannotListenOn) {
  EXPECT_THAT(RpcServer::Start({.address = "unix:/nowhere/socket"}, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "cannot listen on unix:/nowhere/socket: /nowhere: No such file or "
                       "directory"));
  EXPECT_THAT(RpcServer::Start({.address = "192.0.2.1:0", .insecure = true}, {}),
              StatusIs(absl::StatusCode::kUnavailable,
                       "cannot listen on 192.0.2.1:0: the port is in use by another process, or "
                       "the host is not this machine's"));
}

TEST(RpcServerTest, AnAddressOfAllNetworksTakesBothProtocols) {
  ASSERT_OK_AND_ASSIGN(auto server,
                       RpcServer::Start({.address = "0.0.0.0:0", .insecure = true}, {}));
  int port = 0;
  const int six = ListenAtSix(&port);
  for (const std::string host : {"127.0.0.1", six < 0 ? "127.0.0.1" : "[::1]"}) {
    const auto channel = MakeChannel(absl::StrCat(host, ":", server->port()));
    EXPECT_TRUE(channel->WaitForConnected(gpr_time_from_seconds(10, GPR_TIMESPAN))) << host;
  }
  close(six);
}

TEST(RpcServerTest, RefusesWhatOthersReach) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "192.168.1.2:0", "example.org:0"}) {
    EXPECT_THAT(RpcServer::Start({.address = address}, {}),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr(address), HasSubstr("--insecure"))));
  }
  EXPECT_OK(RpcServer::Start({.address = "0.0.0.0:0", .insecure = true}, {}));
}

TEST(RpcServerTest, TellsItsHealth) {
  const std::string address = testing::UniqueSocketAddress();
  ASSERT_OK_AND_ASSIGN(auto server, RpcServer::Start({.address = address}, {}));
  const auto channel = MakeChannel(server->address());
  const auto check = [&](const std::string& request) {
    return CallBytes(channel, "/grpc.health.v1.Health/Check", request, absl::Seconds(10),
                     /*waits=*/true);
  };
  // HealthCheckResponse{status: SERVING}
  EXPECT_EQ(check("").value_or("refused"), "\x08\x01");
  EXPECT_THAT(check("\x0a\x01x").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("known")));
}

// Its shutdown with the last object that uses it may take ten seconds.
TEST(RpcServerTest, GrpcOutlivesTheLastChannel) {
  MakeChannel(testing::UniqueSocketAddress()).reset();
  EXPECT_NE(grpc_is_initialized(), 0);
}

TEST(StatusConversionTest, KeepsCodeAndMessage) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "text");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
  }
}

TEST(StatusConversionTest, WhatGrpcSaysComesInPlainWords) {
  const auto words = [](grpc::StatusCode code, const char* raw) {
    return std::string(FromGrpcStatus(grpc::Status(code, raw)).message());
  };
  EXPECT_EQ(words(grpc::StatusCode::UNAVAILABLE,
                  "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:9: "
                  "Failed to connect to remote host: Connection refused"),
            "connection refused");
  EXPECT_EQ(words(grpc::StatusCode::UNAVAILABLE,
                  "failed to connect to all addresses; last error: INTERNAL: ipv4:127.0.0.1:9: tcp "
                  "handshaker shutdown"),
            "no connection in time");
  EXPECT_EQ(words(grpc::StatusCode::UNAVAILABLE, "Socket closed"), "the connection broke");
  EXPECT_EQ(words(grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"), "no answer in time");
  EXPECT_EQ(words(grpc::StatusCode::UNAVAILABLE,
                  "DNS resolution failed for nowhere:1: C-ares status is not ARES_SUCCESS"),
            "its host name is not known");
  EXPECT_THAT(words(grpc::StatusCode::INTERNAL, ""), HasSubstr("cannot read the request"));
}

TEST(StatusConversionTest, WhatIsSentIsUtf8) {
  EXPECT_EQ(ToGrpcStatus(absl::DataLossError("caf\xe9.png")).error_message(), "caf\\xe9.png");
}

TEST(StatusConversionTest, APeersOwnWordsStay) {
  const absl::Status own = absl::UnavailableError("ps/1 (lost: connection refused, Socket closed)");
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(own)), own);
  EXPECT_TRUE(IsFromPeer(ToGrpcStatus(own)));
  EXPECT_FALSE(IsFromPeer(grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed")));
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
}

TEST(PortFileTest, HoldsTheAddressOrNamesTheFile) {
  const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/port");
  ASSERT_OK(WritePortFile(path, "localhost:1234"));
  std::string line;
  std::getline(std::ifstream(path), line);
  EXPECT_EQ(line, "localhost:1234");
  EXPECT_THAT(std::string(WritePortFile("/nowhere/port", "x").message()),
              AllOf(HasSubstr("/nowhere/port"), StartsWith("cannot write --port_file")));
}

}  // namespace
}  // namespace monsoon
