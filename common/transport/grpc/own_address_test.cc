#include "common/transport/grpc/own_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "common/testing/unique_name.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

constexpr absl::Duration kEvery = absl::Seconds(10);

UniqueFd ListenAt(const sockaddr* address, socklen_t length) {
  UniqueFd fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() || bind(fd.get(), address, length) != 0 || listen(fd.get(), 16) != 0) {
    return UniqueFd();
  }
  return fd;
}

UniqueFd ListenAtFour(uint32_t host) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host);
  return ListenAt(reinterpret_cast<sockaddr*>(&address), sizeof(address));
}

UniqueFd ListenAtSix(const in6_addr& host) {
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = host;
  return ListenAt(reinterpret_cast<sockaddr*>(&address), sizeof(address));
}

UniqueFd ListenAtPath(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return ListenAt(reinterpret_cast<sockaddr*>(&address), sizeof(address));
}

// The next connection; it has come already, or is about to.
UniqueFd Accept(const UniqueFd& listener) {
  pollfd waits = {listener.get(), POLLIN, 0};
  poll(&waits, 1, 10'000);
  return UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

// A socket's path is shorter than what leads to the test's own folder.
std::string Path() { return "/tmp/" + testing::UniqueName(); }

void ExpectArrives(const UniqueFd& listener) {
  ASSERT_TRUE(listener.valid());
  OwnAddress own(listener.get(), kEvery, absl::ZeroDuration());
  own.Work(absl::Seconds(9));
  EXPECT_EQ(own.due(), absl::Seconds(10));
  own.Work(absl::Seconds(10));
  EXPECT_EQ(own.due(), absl::Seconds(20));
  EXPECT_EQ(own.trouble(), "");
  EXPECT_TRUE(own.Arrived(Accept(listener)));
  own.Work(absl::Seconds(20));
  EXPECT_EQ(own.trouble(), "");
}

TEST(OwnAddressTest, ConnectionsArrive) {
  ExpectArrives(ListenAtFour(INADDR_LOOPBACK));
  ExpectArrives(ListenAtFour(INADDR_ANY));
  const std::string path = Path();
  ExpectArrives(ListenAtPath(path));
  unlink(path.c_str());
  // In containers there may be no IPv6.
  if (UniqueFd six = ListenAtSix(in6addr_loopback); six.valid()) {
    ExpectArrives(six);
    ExpectArrives(ListenAtSix(in6addr_any));
  }
}

TEST(OwnAddressTest, ThoseOfOthersAreTheirs) {
  const UniqueFd listener = ListenAtFour(INADDR_LOOPBACK);
  ASSERT_TRUE(listener.valid());
  OwnAddress own(listener.get(), kEvery, absl::ZeroDuration());
  sockaddr_in address = {};
  socklen_t length = sizeof(address);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
  const UniqueFd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(other.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  own.Work(absl::Seconds(10));
  EXPECT_FALSE(own.Arrived(Accept(listener)));
  EXPECT_TRUE(own.Arrived(Accept(listener)));
}

// Nobody takes it: the listener's thread hangs, or it is another machine's address by now.
TEST(OwnAddressTest, OneThatDoesNotArriveIsToldUntilOneDoes) {
  const UniqueFd listener = ListenAtFour(INADDR_LOOPBACK);
  ASSERT_TRUE(listener.valid());
  OwnAddress own(listener.get(), kEvery, absl::ZeroDuration());
  own.Work(absl::Seconds(10));
  own.Work(absl::Seconds(19));
  EXPECT_EQ(own.trouble(), "");
  own.Work(absl::Seconds(20));
  EXPECT_EQ(own.trouble(), "a connection does not arrive");
  EXPECT_FALSE(own.Arrived(Accept(listener))) << "it has been given up";
  EXPECT_TRUE(own.Arrived(Accept(listener)));
  EXPECT_EQ(own.trouble(), "");
}

TEST(OwnAddressTest, ASocketWhoseFileIsGoneIsTold) {
  const std::string path = Path();
  const UniqueFd listener = ListenAtPath(path);
  ASSERT_TRUE(listener.valid());
  OwnAddress own(listener.get(), kEvery, absl::ZeroDuration());
  unlink(path.c_str());
  own.Work(absl::Seconds(10));
  EXPECT_EQ(own.trouble(), "No such file or directory");
}

}  // namespace
}  // namespace monsoon
