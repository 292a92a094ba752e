#include "common/transport/shm/unix_socket.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "common/testing/another_user.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/transport/shm/memory_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(20);

std::string FreshPath() {
  static std::atomic<int> next = 0;
  return absl::StrCat(testing::SocketFolder(), "/", next.fetch_add(1));
}

TEST(UnixSocketTest, CarriesMessagesWithDescriptors) {
  const std::string path = FreshPath();
  ASSERT_OK_AND_ASSIGN(const UniqueFd listener, ListenAt(path));
  EXPECT_THAT(ListenAt(path).status(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(path)));
  EXPECT_THAT(AcceptSameUser(listener.get()).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("")));
  ASSERT_OK_AND_ASSIGN(UniqueFd client, ConnectTo(path));
  ASSERT_OK_AND_ASSIGN(const UniqueFd server, AcceptSameUser(listener.get()));
  EXPECT_THAT(ReceiveSocketMessage(server.get(), absl::Milliseconds(1)).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("1ms")));

  ASSERT_OK_AND_ASSIGN(const MemoryFile file, MemoryFile::Create("test", 4096));
  const int fds[] = {file.fd()};
  ASSERT_OK(SendSocketMessage(client.get(), "first", fds));
  ASSERT_OK(SendSocketMessage(client.get(), "second", {}));
  ASSERT_OK_AND_ASSIGN(SocketMessage message, ReceiveSocketMessage(server.get(), kDeadline));
  EXPECT_EQ(message.bytes, "first");
  ASSERT_EQ(message.fds.size(), 1u);
  ASSERT_OK_AND_ASSIGN(const MemoryFile taken, MemoryFile::Adopt(std::move(message.fds[0]), 4096));
  ASSERT_OK_AND_ASSIGN(const MemoryMapping a, file.Map(MemoryFile::Access::kReadWrite));
  ASSERT_OK_AND_ASSIGN(const MemoryMapping b, taken.Map(MemoryFile::Access::kRead));
  a.data()[0] = std::byte{1};
  EXPECT_EQ(b.data()[0], std::byte{1});
  EXPECT_TRUE(IsConnected(server.get()));
  client.reset();
  EXPECT_FALSE(IsConnected(server.get()));
  // What was sent before the end still arrives.
  ASSERT_OK_AND_ASSIGN(message, ReceiveSocketMessage(server.get(), kDeadline));
  EXPECT_EQ(message.bytes, "second");
  EXPECT_THAT(ReceiveSocketMessage(server.get(), kDeadline).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("closed")));
  EXPECT_THAT(SendSocketMessage(server.get(), "x", {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("")));
}

TEST(UnixSocketTest, NobodyListensAndPathsTooLong) {
  const std::string path = FreshPath();
  EXPECT_THAT(ConnectTo(path).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("connect to " + path)));
  ListenAt(path)->reset();
  EXPECT_THAT(ConnectTo(path).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("refused")));
  const std::string nowhere = testing::SocketFolder() + "/nowhere/socket";
  EXPECT_THAT(ListenAt(nowhere).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(nowhere)));
  for (const std::string& bad : {std::string(), std::string(108, 'x')}) {
    EXPECT_THAT(ListenAt(bad).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no path")));
    EXPECT_THAT(ConnectTo(bad).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no path")));
  }
}

TEST(UnixSocketTest, OnlyItsUserMayConnectToTheFileWhateverTheUmask) {
  const mode_t old = umask(0);
  const std::string path = FreshPath();
  const absl::StatusOr<UniqueFd> listener = ListenAt(path);
  umask(old);
  ASSERT_OK(listener);
  struct stat facts;
  ASSERT_EQ(stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
}

// Both ends look, even where the file's mode and folder let others in.
TEST(UnixSocketTest, APeerOfAnotherUserIsRefused) {
  if (!testing::CanBeAnotherUser()) {
    GTEST_SKIP() << testing::kNoOtherUser;
  }
  const std::string path = FreshPath();
  ASSERT_OK_AND_ASSIGN(const UniqueFd listener, ListenAt(path));
  ASSERT_EQ(chmod(path.c_str(), 0777), 0);
  ASSERT_EQ(chmod(testing::SocketFolder().c_str(), 0755), 0);
  const int seen = testing::RunAsAnotherUser(
      [&path] { return absl::IsPermissionDenied(ConnectTo(path).status()) ? 7 : 1; });
  ASSERT_EQ(chmod(testing::SocketFolder().c_str(), 0700), 0);
  EXPECT_EQ(seen, 7) << "the client takes a server of another user for its own";
  EXPECT_THAT(AcceptSameUser(listener.get()).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("runs as user 65534")));
}

// A killed process says nothing, but its end of the socket closes.
TEST(UnixSocketTest, TheEndOfAKilledPeerIsNoticed) {
  const std::string path = FreshPath();
  ASSERT_OK_AND_ASSIGN(UniqueFd listener, ListenAt(path));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    listener.reset();
    const absl::StatusOr<UniqueFd> socket = ConnectTo(path);
    if (!socket.ok() || !SendSocketMessage(socket->get(), "here", {}).ok()) {
      _exit(1);
    }
    pause();
    _exit(0);
  }
  pollfd connection = {listener.get(), POLLIN, 0};
  ASSERT_EQ(poll(&connection, 1, static_cast<int>(absl::ToInt64Milliseconds(kDeadline))), 1);
  absl::StatusOr<UniqueFd> server = AcceptSameUser(listener.get());
  ASSERT_OK(server);
  ASSERT_OK(ReceiveSocketMessage(server->get(), kDeadline));
  EXPECT_TRUE(IsConnected(server->get()));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  EXPECT_THAT(ReceiveSocketMessage(server->get(), kDeadline).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("closed")));
  EXPECT_FALSE(IsConnected(server->get()));
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace monsoon
