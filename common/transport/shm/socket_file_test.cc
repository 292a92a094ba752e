#include "common/transport/shm/socket_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/process/unique_fd.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/transport/shm/host_id.h"
#include "common/transport/shm/unix_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Each test has a runtime folder of its own.
class SocketFileTest : public ::testing::Test {
 protected:
  SocketFileTest() {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    places_ = {.xdg_runtime_dir = absl::StrCat(testing::SocketFolder(), "/", name.substr(0, 20)),
               .tmp = testing::SocketFolder()};
    EXPECT_EQ(mkdir(places_.xdg_runtime_dir.c_str(), 0700), 0);
  }

  std::string Folder() const { return places_.xdg_runtime_dir + "/monsoon"; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  // What a process leaves that was killed while it listened at `name`.
  void LeaveDead(const std::string& name) const {
    ListenAt(absl::StrCat(Folder(), "/", name))->reset();
  }

  RuntimeFolder::Places places_;
};

std::string NameOf(const SocketFile& file) {
  return std::filesystem::path(file.path()).filename().string();
}

TEST_F(SocketFileTest, ListensInTheRuntimeFolderAndLeavesNothing) {
  {
    ASSERT_OK_AND_ASSIGN(const SocketFile file, SocketFile::Listen(places_));
    EXPECT_EQ(FolderOfSocket(file.path()), Folder());
    EXPECT_THAT(Names(), UnorderedElementsAre(NameOf(file)));
    EXPECT_TRUE(file.IsThere());
    const SharedMemoryOffer offer = file.offer();
    EXPECT_EQ(offer.socket(), file.path());
    ASSERT_OK_AND_ASSIGN(const UniqueFd client, ConnectToOffer(offer));
    EXPECT_OK(AcceptSameUser(file.fd()));
  }
  EXPECT_THAT(Names(), UnorderedElementsAre());
}

TEST_F(SocketFileTest, TheNextOneRemovesWhatKilledProcessesHaveLeft) {
  std::optional<SocketFile> living;
  {
    ASSERT_OK_AND_ASSIGN(SocketFile file, SocketFile::Listen(places_));
    living.emplace(std::move(file));
  }
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<SocketFile> file = SocketFile::Listen(places_);
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  LeaveDead("shm-0123456789abcdef");
  ASSERT_EQ(Names().size(), 3u);
  ASSERT_OK_AND_ASSIGN(const SocketFile next, SocketFile::Listen(places_));
  EXPECT_THAT(Names(), UnorderedElementsAre(NameOf(*living), NameOf(next)));
}

TEST_F(SocketFileTest, WhatIsNotItsOwnStays) {
  ASSERT_OK(SocketFile::Listen(places_));
  const std::string others[] = {"other", "shm-0123456789abcde", "shm-0123456789abcdeg",
                                "shm-0123456789abcdef0", "xhm-0123456789abcdef"};
  for (const std::string& name : others) {
    LeaveDead(name);
  }
  ASSERT_OK(SocketFile::Listen(places_));
  EXPECT_EQ(Names().size(), std::size(others));
}

// It may be about to listen.
TEST_F(SocketFileTest, OneThatDoesNotListenYetStaysForAMinute) {
  ASSERT_OK(SocketFile::Listen(places_));
  const std::string name = "shm-0123456789abcdef.new";
  LeaveDead(name);
  ASSERT_OK(SocketFile::Listen(places_));
  EXPECT_THAT(Names(), UnorderedElementsAre(name));
  timespec times[2] = {};
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= 70;
  times[1] = times[0];
  ASSERT_EQ(utimensat(AT_FDCWD, absl::StrCat(Folder(), "/", name).c_str(), times, 0), 0);
  ASSERT_OK(SocketFile::Listen(places_));
  EXPECT_THAT(Names(), UnorderedElementsAre());
}

TEST_F(SocketFileTest, AFileOfThatNameWhichIsAnothersIsLeftAtTheEnd) {
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const SocketFile file, SocketFile::Listen(places_));
    path = file.path();
    // The second one is made first: else it could get the inode of the one that goes.
    ASSERT_OK(ListenAt(path + "-other"));
    ASSERT_EQ(rename((path + "-other").c_str(), path.c_str()), 0);
    EXPECT_FALSE(file.IsThere());
  }
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
}

TEST_F(SocketFileTest, ARemovedFolderIsNoticedAndMadeAgainByTheNext) {
  ASSERT_OK_AND_ASSIGN(const SocketFile file, SocketFile::Listen(places_));
  const SharedMemoryOffer offer = file.offer();
  std::filesystem::remove_all(Folder());
  EXPECT_FALSE(file.IsThere());
  const auto not_seen = StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr(Folder()), HasSubstr("is not seen here")));
  EXPECT_THAT(ConnectToOffer(offer).status(), not_seen);
  // Kept alive meanwhile, so that the new folder is another one by its number too.
  ASSERT_EQ(mkdir((places_.xdg_runtime_dir + "/holder").c_str(), 0700), 0);
  ASSERT_OK_AND_ASSIGN(const SocketFile next, SocketFile::Listen(places_));
  EXPECT_OK(ConnectToOffer(next.offer()));
}

// As two containers that do not share the folder: the path is the same, the folder another one.
TEST_F(SocketFileTest, AnotherFolderAtThatPathIsNotConnectedTo) {
  ASSERT_OK_AND_ASSIGN(const SocketFile file, SocketFile::Listen(places_));
  SharedMemoryOffer offer = file.offer();
  offer.set_host(HostId("0:1"));
  EXPECT_THAT(ConnectToOffer(offer).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("in a container")));
  offer.set_host("another-boot 0:1");
  EXPECT_THAT(ConnectToOffer(offer).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("on another host")));
  offer.clear_host();
  EXPECT_THAT(ConnectToOffer(offer).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("on another host")));
}

// A peer's word does not lead a client to sockets that are not of shared memory.
TEST_F(SocketFileTest, APathOfAnotherKindIsRefused) {
  ASSERT_OK_AND_ASSIGN(const SocketFile file, SocketFile::Listen(places_));
  SharedMemoryOffer offer = file.offer();
  for (const std::string& bad : {Folder() + "/bus", std::string("shm-0123456789abcdef"),
                                 Folder() + "/../shm-0123456789abcde", file.path() + "/"}) {
    offer.set_socket(bad);
    EXPECT_THAT(ConnectToOffer(offer).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no socket of shared")))
        << bad;
  }
}

TEST_F(SocketFileTest, AFolderThatOthersCanEnterIsNeitherServedNorConnectedTo) {
  ASSERT_OK_AND_ASSIGN(const SocketFile file, SocketFile::Listen(places_));
  ASSERT_EQ(chmod(Folder().c_str(), 0711), 0);
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 700"));
  EXPECT_THAT(SocketFile::Listen(places_).status(), refused);
  EXPECT_THAT(ConnectToOffer(file.offer()).status(), refused);
}

TEST_F(SocketFileTest, NobodyWhoListensIsUnavailable) {
  SharedMemoryOffer offer;
  {
    ASSERT_OK_AND_ASSIGN(const SocketFile file, SocketFile::Listen(places_));
    offer = file.offer();
  }
  EXPECT_THAT(ConnectToOffer(offer).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(offer.socket())));
}

TEST(HostIdTest, IsOfTheKernelTheNetworkAndTheFolder) {
  EXPECT_THAT(HostId("1:2"), HasSubstr(" net:["));
  EXPECT_EQ(HostId("1:2"), HostId("1:2"));
  EXPECT_NE(HostId("1:2"), HostId("1:3"));
  EXPECT_TRUE(IsThisHost(HostId("1:2")));
  EXPECT_FALSE(IsThisHost("1:2"));
  EXPECT_FALSE(IsThisHost(""));
}

}  // namespace
}  // namespace monsoon
