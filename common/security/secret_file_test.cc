#include "common/security/secret_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SecretFileTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(MakeSecretFolder(folder_)); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  mode_t ModeOf(const std::string& path) {
    struct stat facts = {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 07777;
  }
  size_t Files() {
    const std::filesystem::directory_iterator files(folder_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  const std::string folder_ = ::testing::TempDir() + "/" + monsoon::testing::UniqueName();
  const std::string path_ = folder_ + "/identity.pem";
};

TEST_F(SecretFileTest, OnlyTheOwnerCanReadIt) {
  const mode_t before = umask(0);
  EXPECT_OK(WriteSecretFile(path_, "secret"));
  EXPECT_OK(MakeSecretFolder(folder_ + "/inner"));
  umask(before);
  EXPECT_EQ(ModeOf(path_), 0600u);
  EXPECT_EQ(ModeOf(folder_), 0700u);
  EXPECT_EQ(ModeOf(folder_ + "/inner"), 0700u);
  ASSERT_OK_AND_ASSIGN(const std::string content, ReadSecretFile(path_));
  EXPECT_EQ(content, "secret");
}

TEST_F(SecretFileTest, WhatIsToBeKeptIsNotReplaced) {
  ASSERT_OK(WriteSecretFile(path_, "one", Existing::kKeep));
  EXPECT_THAT(WriteSecretFile(path_, "two", Existing::kKeep),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(path_)));
  EXPECT_EQ(ReadSecretFile(path_).value_or(""), "one");
  EXPECT_EQ(ModeOf(path_), 0600u);
  EXPECT_EQ(Files(), 1u);
}

TEST_F(SecretFileTest, IsReplacedAtOnce) {
  ASSERT_OK(WriteSecretFile(path_, "one, which is longer"));
  std::ifstream reader(path_);
  ASSERT_OK(WriteSecretFile(path_, "two"));
  // Who has it open sees what it was.
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "one, which is longer");
  ASSERT_OK_AND_ASSIGN(const std::string content, ReadSecretFile(path_));
  EXPECT_EQ(content, "two");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(SecretFileTest, OneThatOthersCanReadIsRefusedWithTheCommand) {
  ASSERT_OK(WriteSecretFile(path_, "secret"));
  for (const mode_t mode : {0644, 0640, 0604, 0620, 0601, 0666, 0777}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_THAT(ReadSecretFile(path_).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 600 " + path_)))
        << mode;
  }
  ASSERT_EQ(chmod(path_.c_str(), 0400), 0);
  EXPECT_OK(ReadSecretFile(path_));
}

TEST_F(SecretFileTest, AFolderThatOthersCanLookIntoIsRefusedWithTheCommand) {
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr("mode 0755"), HasSubstr("chmod 700 " + folder_)));
  EXPECT_THAT(MakeSecretFolder(folder_), refused);
  EXPECT_THAT(WriteSecretFile(path_, "secret"), refused);
  EXPECT_EQ(Files(), 0u);
}

TEST_F(SecretFileTest, AnothersFileIsRefused) {
  std::string theirs = "/etc/passwd";
  if (geteuid() == 0) {
    theirs = path_;
    ASSERT_OK(WriteSecretFile(path_, "secret"));
    if (chown(path_.c_str(), 12345, 12345) != 0) {
      GTEST_SKIP() << "root of a sandbox cannot give files away";
    }
  }
  EXPECT_THAT(ReadSecretFile(theirs).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("belongs to the user")));
}

TEST_F(SecretFileTest, WhatIsNoPlainFileIsRefused) {
  const auto refused = [&](const std::string& reason) {
    EXPECT_THAT(ReadSecretFile(path_).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(reason)));
    std::filesystem::remove_all(path_);
  };
  ASSERT_OK(WriteSecretFile(folder_ + "/other", "secret"));
  std::filesystem::create_symlink("other", path_);
  refused("is a link");
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  refused("no plain file");
  ASSERT_OK(MakeSecretFolder(path_));
  refused("no plain file");
  ASSERT_OK(WriteSecretFile(path_, std::string(65'537, 'x')));
  refused("more than 65536 bytes");
  EXPECT_THAT(ReadSecretFile(path_).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path_)));
}

// A link at its place is replaced; what it points to is not written.
TEST_F(SecretFileTest, ALinkIsNotFollowed) {
  ASSERT_OK(WriteSecretFile(folder_ + "/other", "other"));
  std::filesystem::create_symlink("other", path_);
  ASSERT_OK(WriteSecretFile(path_, "secret"));
  ASSERT_OK_AND_ASSIGN(const std::string other, ReadSecretFile(folder_ + "/other"));
  EXPECT_EQ(other, "other");
  EXPECT_FALSE(std::filesystem::is_symlink(path_));
}

TEST_F(SecretFileTest, AFileThatCannotBeReplacedLeavesNothingBehind) {
  ASSERT_OK(MakeSecretFolder(path_));
  EXPECT_FALSE(WriteSecretFile(path_, "secret").ok());
  EXPECT_EQ(Files(), 1u);
}

}  // namespace
}  // namespace monsoon
