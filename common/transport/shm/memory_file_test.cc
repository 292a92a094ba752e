// Memory files and the sockets that carry them.
#include "common/transport/shm/memory_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "common/transport/shm/host_id.h"
#include "common/transport/shm/unix_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(20);

std::string FreshName() { return "monsoon-socket-test-" + testing::UniqueName(); }

TEST(MemoryFileTest, TwoMappingsShareTheirBytesAndTheSizeIsFixed) {
  ASSERT_OK_AND_ASSIGN(const MemoryFile file, MemoryFile::Create("test", 8192));
  ASSERT_OK_AND_ASSIGN(const MemoryMapping a, file.Map(MemoryFile::Access::kReadWrite));
  ASSERT_OK_AND_ASSIGN(const MemoryMapping b, file.Map(MemoryFile::Access::kRead));
  EXPECT_EQ(b.data()[8191], std::byte{0});
  a.data()[8191] = std::byte{7};
  EXPECT_EQ(b.data()[8191], std::byte{7});
  EXPECT_NE(ftruncate(file.fd(), 4096), 0);
  EXPECT_NE(ftruncate(file.fd(), 16384), 0);
}

TEST(MemoryFileTest, SealedAgainstWritesItIsReadOnlyForOthers) {
  ASSERT_OK_AND_ASSIGN(const MemoryFile file, MemoryFile::Create("test", 4096));
  ASSERT_OK_AND_ASSIGN(const MemoryMapping own, file.Map(MemoryFile::Access::kReadWrite));
  ASSERT_OK(file.SealWrites());
  ASSERT_OK_AND_ASSIGN(const MemoryFile theirs, MemoryFile::Adopt(UniqueFd(dup(file.fd())), 4096));
  EXPECT_THAT(theirs.Map(MemoryFile::Access::kReadWrite).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("mmap")));
  EXPECT_LT(pwrite(theirs.fd(), "x", 1, 0), 0);
  ASSERT_OK_AND_ASSIGN(const MemoryMapping mapped, theirs.Map(MemoryFile::Access::kRead));
  own.data()[3] = std::byte{9};
  EXPECT_EQ(mapped.data()[3], std::byte{9});
  EXPECT_NE(mprotect(mapped.data(), mapped.size(), PROT_READ | PROT_WRITE), 0);
}

TEST(MemoryFileTest, AFileThatCouldShrinkOrIsTooSmallIsRefused) {
  UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  EXPECT_THAT(MemoryFile::Adopt(std::move(unsealed), 4096).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not sealed")));
  ASSERT_OK_AND_ASSIGN(const MemoryFile small, MemoryFile::Create("test", 4096));
  EXPECT_THAT(MemoryFile::Adopt(UniqueFd(dup(small.fd())), 4097).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4097")));
  EXPECT_THAT(MemoryFile::Adopt(UniqueFd(open("/dev/null", 0)), 1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sealed")));
}

TEST(UnixSocketTest, CarriesMessagesWithDescriptors) {
  const std::string name = FreshName();
  ASSERT_OK_AND_ASSIGN(const UniqueFd listener, ListenAbstract(name));
  EXPECT_THAT(ListenAbstract(name).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(name)));
  EXPECT_THAT(AcceptSameUser(listener.get()).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("")));
  ASSERT_OK_AND_ASSIGN(UniqueFd client, ConnectAbstract(name));
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

TEST(UnixSocketTest, NobodyListensAndNamesTooLong) {
  EXPECT_THAT(ConnectAbstract(FreshName()).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("connect")));
  EXPECT_THAT(ListenAbstract(std::string(108, 'x')).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no name")));
  EXPECT_THAT(ListenAbstract("").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no name")));
}

// A killed process says nothing, but its end of the socket closes.
TEST(UnixSocketTest, TheEndOfAKilledPeerIsNoticed) {
  const std::string name = FreshName();
  ASSERT_OK_AND_ASSIGN(UniqueFd listener, ListenAbstract(name));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    listener.reset();
    const absl::StatusOr<UniqueFd> socket = ConnectAbstract(name);
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

TEST(HostIdTest, IsTheSameForThisProcess) {
  EXPECT_EQ(HostId(), HostId());
  EXPECT_THAT(HostId(), HasSubstr("net:["));
}

}  // namespace
}  // namespace monsoon
