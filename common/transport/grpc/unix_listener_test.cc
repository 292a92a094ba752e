#include "common/transport/grpc/unix_listener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/testing/another_user.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kBacklog = 8;

// Each test has a folder of its own.
class UnixListenerTest : public ::testing::Test {
 protected:
  UnixListenerTest()
      : folder_(absl::StrCat(testing::SocketFolder(), "/",
                             ::testing::UnitTest::GetInstance()->current_test_info()->line())),
        path_(folder_ + "/socket") {
    EXPECT_EQ(mkdir(folder_.c_str(), 0700), 0);
  }

  const std::string folder_;
  const std::string path_;
};

bool Connects(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

TEST_F(UnixListenerTest, OnlyItsUserMayConnectWhateverTheUmask) {
  const mode_t old = umask(0);
  const absl::StatusOr<UnixListener> listener = ListenAtPath(path_, kBacklog);
  umask(old);
  ASSERT_OK(listener);
  struct stat facts;
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  EXPECT_TRUE(Connects(path_));
  if (testing::CanBeAnotherUser()) {
    for (const std::string& folder : {testing::SocketFolder(), folder_}) {
      ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
    }
    EXPECT_EQ(testing::RunAsAnotherUser([this] { return Connects(path_) ? 1 : 2; }), 2);
    ASSERT_EQ(chmod(testing::SocketFolder().c_str(), 0700), 0);
  }
}

TEST_F(UnixListenerTest, ReplacesWhatADeadProcessLeftAndNothingElse) {
  ListenAtPath(path_, kBacklog)->socket.reset();
  ASSERT_OK_AND_ASSIGN(const UnixListener listener, ListenAtPath(path_, kBacklog));
  EXPECT_TRUE(Connects(path_));
  EXPECT_THAT(ListenAtPath(path_, kBacklog).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("in use by another process")));
  EXPECT_TRUE(Connects(path_));
  const std::string file = folder_ + "/file";
  const UniqueFd fd(open(file.c_str(), O_CREAT | O_CLOEXEC, 0600));
  EXPECT_THAT(ListenAtPath(file, kBacklog).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is no socket")));
  EXPECT_EQ(access(file.c_str(), F_OK), 0);
}

// A process that stands still takes nothing, and is there all the same.
TEST_F(UnixListenerTest, AFullQueueIsNoDeadProcess) {
  ASSERT_OK_AND_ASSIGN(const UnixListener listener, ListenAtPath(path_, 0));
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(ListenAtPath(path_, kBacklog).status(),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("in use")));
  }
}

TEST_F(UnixListenerTest, AFolderThatOthersCanChangeIsRefused) {
  for (const mode_t mode : {0770u, 0702u}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    EXPECT_THAT(ListenAtPath(path_, kBacklog).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("others can write to the folder"),
                               HasSubstr("chmod go-w " + folder_))));
  }
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
  // As /tmp: each can remove what is their own.
  ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  EXPECT_OK(ListenAtPath(path_, kBacklog).status());
}

TEST_F(UnixListenerTest, AFolderOfAnotherUserIsRefused) {
  if (!testing::CanBeAnotherUser()) {
    GTEST_SKIP() << testing::kNoOtherUser;
  }
  ASSERT_EQ(chown(folder_.c_str(), testing::kAnotherUser, testing::kAnotherUser), 0);
  EXPECT_THAT(ListenAtPath(path_, kBacklog).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("belongs to the user with the number 65534")));
}

TEST_F(UnixListenerTest, AFileThatIsAnothersByNowStays) {
  ASSERT_OK_AND_ASSIGN(const UnixListener first, ListenAtPath(path_, kBacklog));
  ASSERT_OK_AND_ASSIGN(const UnixListener second, ListenAtPath(path_ + "2", kBacklog));
  ASSERT_EQ(rename((path_ + "2").c_str(), path_.c_str()), 0);
  RemoveSocketFile(path_, first.inode);
  EXPECT_TRUE(Connects(path_));
  RemoveSocketFile(path_, second.inode);
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace monsoon
