#include "common/transport/grpc/connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/process/unique_fd.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kFiles = 128;
constexpr size_t kNewcomers = kFiles / 8;

// Both ends of a connection over TCP.
struct Pair {
  UniqueFd client, server;

  std::string peer() const { return Connections::PeerOf(server.get()); }
  bool IsCut() const {
    char byte;
    return recv(client.get(), &byte, 1, MSG_DONTWAIT) == -1 && errno == ECONNRESET;
  }
};

class ConnectionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener_.get(), 100), 0);
  }

  // From an address of its own, 127.0.0.`host`.
  Pair Connect(int host) {
    sockaddr_in address = {};
    socklen_t length = sizeof(address);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    Pair pair{UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), UniqueFd()};
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, absl::StrCat("127.0.0.", host).c_str(), &own.sin_addr);
    EXPECT_EQ(bind(pair.client.get(), reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(connect(pair.client.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    pair.server = UniqueFd(accept(listener_.get(), nullptr, nullptr));
    return pair;
  }
  // One that is handed over.
  Pair Come(int host) {
    Pair pair = Connect(host);
    EXPECT_TRUE(connections_.NoteNewcomer(pair.server.get(), now_));
    return pair;
  }
  absl::Status Prove(const Pair& pair, const std::string& member) {
    return connections_.NoteMember(pair.peer(), member, now_);
  }

  absl::Duration now_;
  Connections connections_{kFiles};
  UniqueFd listener_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

TEST_F(ConnectionsTest, AStrangersOldestConnectionIsCutForItsNext) {
  const Pair honest = Come(1);
  std::vector<Pair> strangers;
  for (size_t i = 0; i < kNewcomers / 2 + 1; ++i) {
    strangers.push_back(Come(66));
  }
  EXPECT_TRUE(strangers[0].IsCut());
  EXPECT_FALSE(strangers[1].IsCut());
  EXPECT_FALSE(honest.IsCut());
}

TEST_F(ConnectionsTest, AMembersConnectionsAreNotDisplaced) {
  const Pair member = Come(1);
  ASSERT_OK(Prove(member, "worker/7"));
  ASSERT_OK(Prove(member, "worker/7"));  // with each call
  std::vector<Pair> others;
  for (size_t i = 0; i < kNewcomers; ++i) {
    others.push_back(Come(1));
  }
  EXPECT_FALSE(member.IsCut());
  EXPECT_TRUE(others[0].IsCut());
}

TEST_F(ConnectionsTest, TooManyAtOnceAreNotHandedOver) {
  const Pair pair = Connect(66);
  int came = 0;
  while (connections_.NoteNewcomer(pair.server.get(), now_)) {
    ++came;
  }
  EXPECT_EQ(came, Newcomers::kAtOnce);
  now_ += absl::Seconds(1);
  EXPECT_TRUE(connections_.NoteNewcomer(pair.server.get(), now_));
}

TEST_F(ConnectionsTest, AMemberHasItsShareOfConnections) {
  std::vector<Pair> pairs;
  for (size_t i = 0; i < kFiles / 4; ++i) {
    pairs.push_back(Come(1));
    ASSERT_OK(Prove(pairs.back(), "worker/7"));
  }
  const Pair more = Come(1);
  EXPECT_THAT(Prove(more, "worker/7"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("worker/7 has 32 connections"), HasSubstr("ulimit -n"))));
  EXPECT_OK(Prove(pairs[0], "worker/7"));  // is served on
  const Pair other = Come(1);
  EXPECT_OK(Prove(other, "worker/8"));
  pairs.resize(10);
  EXPECT_OK(Prove(more, "worker/7"));  // ended ones do not count
}

TEST_F(ConnectionsTest, WhoIsCutOffAgainAndAgainIsShutOut) {
  const Pair good = Come(1), bad = Come(1);
  ASSERT_OK(Prove(bad, "worker/7"));
  for (int i = 0; i < Connections::kMostCuts; ++i) {
    connections_.NoteCut(bad.peer(), now_);
  }
  EXPECT_OK(Prove(bad, "worker/7"));
  connections_.NoteCut(bad.peer(), now_);
  EXPECT_THAT(Prove(bad, "worker/7"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("worker/7"), HasSubstr("let in again in 30s"))));
  EXPECT_OK(Prove(good, "worker/8"));
  now_ += Connections::kShutOut;
  EXPECT_OK(Prove(bad, "worker/7"));
}

TEST_F(ConnectionsTest, TheAddressOfWhoHasProvedNothingIsShutOut) {
  const Pair member = Come(66), bad = Come(66), more = Connect(66), other = Connect(1);
  ASSERT_OK(Prove(member, "worker/7"));
  for (int i = 0; i <= Connections::kMostCuts; ++i) {
    EXPECT_TRUE(connections_.NoteNewcomer(more.server.get(), now_));
    connections_.NoteCut(bad.peer(), now_);
  }
  EXPECT_FALSE(connections_.NoteNewcomer(more.server.get(), now_));
  EXPECT_TRUE(connections_.NoteNewcomer(other.server.get(), now_));
  EXPECT_OK(Prove(member, "worker/7"));
  now_ += Connections::kShutOut + absl::Seconds(1);
  EXPECT_TRUE(connections_.NoteNewcomer(more.server.get(), now_));
}

TEST_F(ConnectionsTest, OneCutMayStandForMany) {
  const Pair bad = Come(1);
  ASSERT_OK(Prove(bad, "worker/7"));
  connections_.NoteCut(bad.peer(), now_, Connections::kMostCuts + 1);
  EXPECT_FALSE(Prove(bad, "worker/7").ok());
}

TEST_F(ConnectionsTest, CutsArePassedOverInTime) {
  const Pair bad = Come(1);
  ASSERT_OK(Prove(bad, "worker/7"));
  for (int i = 0; i < 20; ++i, now_ += absl::Minutes(1)) {
    connections_.NoteCut(bad.peer(), now_);
    EXPECT_OK(Prove(bad, "worker/7"));
  }
}

}  // namespace
}  // namespace monsoon
