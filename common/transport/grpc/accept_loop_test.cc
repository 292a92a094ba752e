#include "common/transport/grpc/accept_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/testing/another_user.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

// A loop at a Unix socket, and what it has taken.
class AcceptLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UniqueSocketAddress();
    path_ = name.substr(name.find(':') + 1);
    address_.sun_family = AF_UNIX;
    path_.copy(address_.sun_path, sizeof(address_.sun_path) - 1);
    std::vector<UniqueFd> listeners;
    listeners.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(bind(listeners[0].get(), reinterpret_cast<sockaddr*>(&address_), length_), 0);
    ASSERT_EQ(listen(listeners[0].get(), 1000), 0);
    const auto on_trouble = [this](const std::string& trouble) {
      MutexLock lock(&mutex_);
      trouble_ = trouble;
      changed_.NotifyAll();
    };
    ASSERT_OK_AND_ASSIGN(
        loop_, AcceptLoop::Start({.name = name, .on_trouble = on_trouble, .probe_every = Every()},
                                 std::move(listeners), [this](int, UniqueFd connection) {
                                   MutexLock lock(&mutex_);
                                   taken_.push_back(std::move(connection));
                                   changed_.NotifyAll();
                                 }));
  }

  // Between two connections of the loop's own: none is made before a test is over.
  virtual absl::Duration Every() const { return absl::Hours(1); }

  UniqueFd Connect() {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return connect(fd.get(), reinterpret_cast<sockaddr*>(&address_), length_) == 0 ? std::move(fd)
                                                                                   : UniqueFd();
  }
  // Waits until the other end has closed it.
  static bool IsClosed(const UniqueFd& fd) {
    pollfd poll_fd = {fd.get(), POLLIN, 0};
    char byte;
    return poll(&poll_fd, 1, 10'000) == 1 && recv(fd.get(), &byte, 1, 0) <= 0;
  }
  bool AwaitTaken(size_t count) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, absl::Seconds(10), [&] {
      mutex_.AssertHeld();
      return taken_.size() == count;
    });
  }
  bool AwaitTrouble(absl::FunctionRef<bool(const std::string&)> is) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, absl::Seconds(10), [&] {
      mutex_.AssertHeld();
      return is(trouble_);
    });
  }
  bool AwaitReached() {
    return AwaitTrouble([](const std::string& trouble) { return trouble.empty(); });
  }
  size_t taken() {
    MutexLock lock(&mutex_);
    return taken_.size();
  }
  sockaddr_un address_ = {};
  socklen_t length_ = sizeof(sockaddr_un);
  std::string path_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<UniqueFd> taken_ ABSL_GUARDED_BY(mutex_);
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<AcceptLoop> loop_;
};

// Sets the limit of open files until the end of a scope.
class FileLimit {
 public:
  explicit FileLimit(rlim_t files) {
    getrlimit(RLIMIT_NOFILE, &old_);
    const rlimit limit = {files, old_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~FileLimit() { setrlimit(RLIMIT_NOFILE, &old_); }

 private:
  rlimit old_;
};

// All that the process may open.
std::vector<UniqueFd> OpenAll() {
  std::vector<UniqueFd> files;
  while (true) {
    UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) {
      return files;
    }
    files.push_back(std::move(fd));
  }
}

TEST_F(AcceptLoopTest, TakesConnections) {
  const UniqueFd first = Connect(), second = Connect();
  EXPECT_TRUE(AwaitTaken(2));
}

// The file's mode and folder keep others away; these here do not.
TEST_F(AcceptLoopTest, ClosesConnectionsOfOtherUsersAndNamesThem) {
  if (!testing::CanBeAnotherUser()) {
    GTEST_SKIP() << testing::kNoOtherUser;
  }
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  ASSERT_EQ(chmod(testing::SocketFolder().c_str(), 0755), 0);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(testing::RunAsAnotherUser([this] {
                const UniqueFd fd = Connect();
                return !fd.valid() ? 1 : IsClosed(fd) ? 2 : 3;
              }),
              2);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_EQ(chmod(testing::SocketFolder().c_str(), 0700), 0);
  const UniqueFd own = Connect();
  EXPECT_TRUE(AwaitTaken(1));
  EXPECT_THAT(log, HasSubstr("closed a connection of the user with the number 65534 (pid "));
  EXPECT_EQ(log.find("closed a connection"), log.rfind("closed a connection"))
      << "one line for many";
}

TEST_F(AcceptLoopTest, ClosesWhatComesWithoutDescriptorsAndTakesTheNextOnes) {
  UniqueFd early(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  {
    const FileLimit limit(128);
    const std::vector<UniqueFd> files = OpenAll();
    ASSERT_EQ(connect(early.get(), reinterpret_cast<sockaddr*>(&address_), length_), 0);
    EXPECT_TRUE(IsClosed(early));
  }
  EXPECT_EQ(taken(), 0);
  const UniqueFd late = Connect();
  EXPECT_TRUE(AwaitTaken(1));
}

TEST_F(AcceptLoopTest, GoesOnAfterManyThatCameWithoutDescriptors) {
  std::vector<UniqueFd> early;
  for (int i = 0; i < 100; ++i) {
    early.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  {
    const FileLimit limit(256);
    const std::vector<UniqueFd> files = OpenAll();
    for (const UniqueFd& fd : early) {
      ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address_), length_), 0);
    }
    for (const UniqueFd& fd : early) {
      EXPECT_TRUE(IsClosed(fd));
    }
  }
  const UniqueFd late = Connect();
  EXPECT_TRUE(AwaitTaken(1));
}

TEST_F(AcceptLoopTest, KeepsDescriptorsForTheProcess) {
  const FileLimit limit(128);
  std::vector<UniqueFd> files;
  do {
    files.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  } while (files.back().get() < 128 - 128 / 8);
  const UniqueFd refused = Connect();
  EXPECT_TRUE(IsClosed(refused));
  EXPECT_GE(OpenAll().size(), 10);
  files.clear();
  const UniqueFd late = Connect();
  EXPECT_TRUE(AwaitTaken(1));
}

TEST_F(AcceptLoopTest, TellsThatItTakesNoConnectionsAndThatItDoesAgain) {
  {
    UniqueFd early(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const FileLimit limit(128);
    const std::vector<UniqueFd> files = OpenAll();
    ASSERT_EQ(connect(early.get(), reinterpret_cast<sockaddr*>(&address_), length_), 0);
    EXPECT_TRUE(AwaitTrouble([](const std::string& trouble) {
      return absl::StartsWith(trouble, "takes no new connections: of the 128 files");
    }));
  }
  const UniqueFd late = Connect();
  EXPECT_TRUE(AwaitReached());
}

class OwnConnectionsTest : public AcceptLoopTest {
 protected:
  absl::Duration Every() const override { return absl::Milliseconds(20); }
};

// Nobody tells the loop that descriptors are free: a connection of its own finds it out.
TEST_F(OwnConnectionsTest, FindThatItIsReachedAgain) {
  {
    const FileLimit limit(128);
    const std::vector<UniqueFd> files = OpenAll();
    EXPECT_TRUE(AwaitTrouble([](const std::string& trouble) { return !trouble.empty(); }));
  }
  EXPECT_TRUE(AwaitReached());
  EXPECT_EQ(taken(), 0) << "they are nobody's";
}

TEST_F(AcceptLoopTest, ClosesItsSocketsAtTheEnd) {
  loop_.reset();
  EXPECT_FALSE(Connect().valid());
}

}  // namespace
}  // namespace monsoon
