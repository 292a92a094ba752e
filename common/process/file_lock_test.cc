#include "common/process/file_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

std::string LockPath() {
  return absl::StrCat(::testing::TempDir(), "/lock-",
                      ::testing::UnitTest::GetInstance()->current_test_info()->name());
}

TEST(FileLockTest, OneAtATimeAndTheNextIsToldWho) {
  const std::string path = LockPath();
  {
    ASSERT_OK_AND_ASSIGN(const FileLock held, FileLock::Take(path));
    // Another open file, as another process would have.
    const absl::Status second = FileLock::Take(path).status();
    EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(second.message()),
                HasSubstr(absl::StrCat(path, " is held by process ", getpid())));
  }
  EXPECT_OK(FileLock::Take(path));
}

TEST(FileLockTest, EndsWithItsProcessHoweverThatEnds) {
  const std::string path = LockPath();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<FileLock> lock = FileLock::Take(path);
    const char ok = lock.ok() ? 'y' : 'n';
    (void)!write(ready[1], &ok, 1);
    pause();
    _exit(0);
  }
  char ok = 0;
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  ASSERT_EQ(ok, 'y');
  EXPECT_THAT(std::string(FileLock::Take(path).status().message()),
              HasSubstr(absl::StrCat("process ", child)));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_OK(FileLock::Take(path));
}

TEST(FileLockTest, SeveralMayShareAndOthersSeeIt) {
  const std::string path = LockPath();
  EXPECT_FALSE(FileLock::IsShared(path));
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "looking has made it";
  {
    ASSERT_OK_AND_ASSIGN(const FileLock one, FileLock::Share(path));
    {
      ASSERT_OK_AND_ASSIGN(const FileLock other, FileLock::Share(path));
      EXPECT_TRUE(FileLock::IsShared(path));
    }
    EXPECT_TRUE(FileLock::IsShared(path));
  }
  EXPECT_FALSE(FileLock::IsShared(path));
  ASSERT_OK_AND_ASSIGN(const FileLock again, FileLock::Share(path));
  EXPECT_TRUE(FileLock::IsShared(path));
}

TEST(FileLockTest, ErrorsNameThePath) {
  const absl::Status status = FileLock::Take("/no/such/folder/lock").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/folder/lock"));
}

}  // namespace
}  // namespace monsoon
