#include "common/process/peer_user.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/process/unique_fd.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

TEST(PeerUserTest, OfAPairItIsThisProcess) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const UniqueFd one(pair[0]), other(pair[1]);
  ASSERT_OK_AND_ASSIGN(const PeerUser peer, PeerUserOf(one.get()));
  EXPECT_EQ(peer.uid, geteuid());
  EXPECT_EQ(peer.pid, getpid());
  EXPECT_TRUE(IsUnixSocket(one.get()));
}

TEST(PeerUserTest, WhatIsNoSocketHasNone) {
  const UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(PeerUserOf(file.get()).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("SO_PEERCRED")));
  EXPECT_FALSE(IsUnixSocket(file.get()));
  const UniqueFd tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(IsUnixSocket(tcp.get()));
}

TEST(PeerUserTest, TheUserAndRootMayTalkAndNobodyElse) {
  EXPECT_TRUE(IsUserOrRoot({.uid = 1000}, 1000));
  EXPECT_TRUE(IsUserOrRoot({.uid = 0}, 1000));
  EXPECT_FALSE(IsUserOrRoot({.uid = 1001}, 1000));
  EXPECT_FALSE(IsUserOrRoot({.uid = 1000}, 0));
}

}  // namespace
}  // namespace monsoon
