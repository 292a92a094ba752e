#include "common/process/runtime_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/testing/another_user.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kNameBytes = 20;

// Two folders to look in, of which neither is this machine's.
class RuntimeFolderTest : public ::testing::Test {
 protected:
  RuntimeFolderTest() {
    std::string folder = "/tmp/monsoon-folder-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    base_ = folder;
    places_ = {.xdg_runtime_dir = folder + "/run", .tmp = folder + "/tmp"};
    EXPECT_EQ(mkdir(places_.xdg_runtime_dir.c_str(), 0700), 0);
    EXPECT_EQ(mkdir(places_.tmp.c_str(), 0700), 0);
    EXPECT_EQ(chmod(places_.tmp.c_str(), 01777), 0);
  }
  ~RuntimeFolderTest() override { std::filesystem::remove_all(base_); }

  std::string OfUser() const { return absl::StrCat(places_.tmp, "/monsoon-", geteuid()); }
  absl::StatusOr<RuntimeFolder> Open() const { return RuntimeFolder::Open(places_, kNameBytes); }

  std::string base_;
  RuntimeFolder::Places places_;
};

mode_t ModeOf(const std::string& path) {
  struct stat facts = {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 07777u;
}

TEST_F(RuntimeFolderTest, IsMadeForThisUserAloneAndFoundAgain) {
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder made, Open());
  EXPECT_EQ(made.path, places_.xdg_runtime_dir + "/monsoon");
  EXPECT_EQ(ModeOf(made.path), 0700u);
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder found, Open());
  EXPECT_EQ(found.path, made.path);
  EXPECT_EQ(found.id, made.id);
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder looked_at, RuntimeFolder::Look(made.path));
  EXPECT_EQ(looked_at.id, made.id);
}

TEST_F(RuntimeFolderTest, WithoutTheVariableItIsTheUsersOwnOfTmp) {
  places_.xdg_runtime_dir = "";
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder made, Open());
  EXPECT_EQ(made.path, OfUser());
  EXPECT_EQ(ModeOf(made.path), 0700u);
}

TEST_F(RuntimeFolderTest, AVariableThatNamesNoFolderOfThisUserAloneDoesNotCount) {
  ASSERT_EQ(chmod(places_.xdg_runtime_dir.c_str(), 0720), 0);
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder written_by_others, Open());
  EXPECT_EQ(written_by_others.path, OfUser());
  places_.xdg_runtime_dir += "/nothing";
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder missing, Open());
  EXPECT_EQ(missing.path, OfUser());
  places_.xdg_runtime_dir = "relative";
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder relative, Open());
  EXPECT_EQ(relative.path, OfUser());
}

TEST_F(RuntimeFolderTest, AVariableOfAnotherUserDoesNotCount) {
  if (!testing::CanBeAnotherUser()) {
    GTEST_SKIP() << testing::kNoOtherUser;
  }
  ASSERT_EQ(chown(places_.xdg_runtime_dir.c_str(), testing::kAnotherUser, testing::kAnotherUser),
            0);
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder folder, Open());
  EXPECT_EQ(folder.path, OfUser());
}

TEST_F(RuntimeFolderTest, APathTooLongForASocketGivesWayToTmp) {
  places_.xdg_runtime_dir += "/" + std::string(60, 'x');
  ASSERT_EQ(mkdir(places_.xdg_runtime_dir.c_str(), 0700), 0);
  // "/monsoon/" and the name fill the 107 bytes of an address exactly.
  const size_t fits = 107 - places_.xdg_runtime_dir.size() - 9;
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder longest, RuntimeFolder::Open(places_, fits));
  EXPECT_EQ(longest.path, places_.xdg_runtime_dir + "/monsoon");
  EXPECT_EQ(longest.path.size() + 1 + fits, 107u);
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder longer, RuntimeFolder::Open(places_, fits + 1));
  EXPECT_EQ(longer.path, OfUser());
  EXPECT_THAT(RuntimeFolder::Open(places_, 107).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("too long")));
}

TEST_F(RuntimeFolderTest, OneThatOthersCanEnterIsRefusedWithTheCommandThatMendsIt) {
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder made, Open());
  for (const mode_t mode : {0710u, 0701u, 0740u}) {
    ASSERT_EQ(chmod(made.path.c_str(), mode), 0);
    EXPECT_THAT(Open().status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          AllOf(HasSubstr("can be entered by others"),
                                                HasSubstr(absl::StrCat("chmod 700 ", made.path)))));
  }
  ASSERT_EQ(chmod(made.path.c_str(), 0700), 0);
  EXPECT_OK(Open());
}

TEST_F(RuntimeFolderTest, ALinkOrAFileIsRefused) {
  const std::string other = base_ + "/other";
  const std::string path = places_.xdg_runtime_dir + "/monsoon";
  ASSERT_EQ(mkdir(other.c_str(), 0700), 0);
  ASSERT_EQ(symlink(other.c_str(), path.c_str()), 0);
  EXPECT_THAT(Open().status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(path), HasSubstr("is a link: move it away, or set "
                                                        "XDG_RUNTIME_DIR to a folder"))));
  ASSERT_EQ(unlink(path.c_str()), 0);
  std::fclose(std::fopen(path.c_str(), "w"));
  EXPECT_THAT(Open().status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is no folder")));
}

TEST_F(RuntimeFolderTest, AnotherUsersIsRefused) {
  if (!testing::CanBeAnotherUser()) {
    GTEST_SKIP() << testing::kNoOtherUser;
  }
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder made, Open());
  ASSERT_EQ(chown(made.path.c_str(), testing::kAnotherUser, testing::kAnotherUser), 0);
  EXPECT_THAT(Open().status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("belongs to the user with the number 65534"),
                             HasSubstr("move it away"))));
}

TEST_F(RuntimeFolderTest, WhoLooksMakesNothingAndTellsFoldersApart) {
  EXPECT_THAT(RuntimeFolder::Look(OfUser()).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(OfUser())));
  EXPECT_NE(access(OfUser().c_str(), F_OK), 0);
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder one, Open());
  places_.xdg_runtime_dir = "";
  ASSERT_OK_AND_ASSIGN(const RuntimeFolder other, Open());
  EXPECT_NE(one.id, other.id);
}

TEST_F(RuntimeFolderTest, WhatCannotBeMadeIsNamed) {
  places_ = {.xdg_runtime_dir = "", .tmp = base_ + "/nowhere"};
  EXPECT_THAT(Open().status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(OfUser())));
}

TEST(FolderOfSocketTest, IsAllBeforeTheLastSlash) {
  EXPECT_EQ(FolderOfSocket("/run/user/7/monsoon/shm-1"), "/run/user/7/monsoon");
  EXPECT_EQ(FolderOfSocket("shm-1"), "");
}

}  // namespace
}  // namespace monsoon
