#include "ps_server/checkpoint/state_folder.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string StateDir() {
  return absl::StrCat(::testing::TempDir(), "/",
                      ::testing::UnitTest::GetInstance()->current_test_info()->name());
}

TEST(StateFolderTest, EachLifeHasAHigherEpoch) {
  Storage* const storage = PosixStorage();
  uint64_t last = 0;
  // The clock goes back once.
  for (const int64_t unix_us : {1'000'000, 2'000'000, 500, 500}) {
    ASSERT_OK_AND_ASSIGN(const auto folder, StateFolder::Open(storage, StateDir(), 1, unix_us));
    EXPECT_GT(folder->epoch(), last);
    EXPECT_GE(folder->epoch(), static_cast<uint64_t>(unix_us));
    EXPECT_OK(folder->CheckOwner());
    last = folder->epoch();
  }
  EXPECT_EQ(last, 2'000'002u);
}

TEST(StateFolderTest, ASecondServerIsToldWhoHoldsIt) {
  ASSERT_OK_AND_ASSIGN(const auto held, StateFolder::Open(PosixStorage(), StateDir(), 0, 5));
  EXPECT_THAT(
      StateFolder::Open(PosixStorage(), StateDir(), 0, 6),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr(StateDir()), HasSubstr(absl::StrCat("process ", getpid())))));
  EXPECT_OK(StateFolder::Open(PosixStorage(), StateDir(), 1, 6));  // another task
  EXPECT_OK(held->CheckOwner());
}

TEST(StateFolderTest, TheLifeThatHasWrittenAPartIsNoted) {
  ASSERT_OK_AND_ASSIGN(const auto folder, StateFolder::Open(PosixStorage(), StateDir(), 3, 5));
  const std::string note = LastWriterPath(StateDir(), 3);
  EXPECT_EQ(note, StateDir() + "/ps-3/written");
  EXPECT_THAT(PosixStorage()->ReadAll(note, 64), StatusIs(absl::StatusCode::kNotFound, _));
  ASSERT_OK(folder->NoteWritten());
  ASSERT_OK_AND_ASSIGN(const std::string text, PosixStorage()->ReadAll(note, 64));
  EXPECT_EQ(text, "5\n");
}

TEST(StateFolderTest, AnEpochThatSomebodyElseClaimedEndsTheOwnership) {
  ASSERT_OK_AND_ASSIGN(const auto held, StateFolder::Open(PosixStorage(), StateDir(), 0, 5));
  ASSERT_OK(PosixStorage()->WriteAll(StateDir() + "/ps-0/epoch", "6\n"));
  EXPECT_THAT(held->CheckOwner(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is 6, not 5")));
}

TEST(StateFolderTest, AnEpochFileWithoutANumberIsNotTakenForANewFolder) {
  ASSERT_OK(PosixStorage()->MakeFolder(StateDir() + "/ps-0"));
  for (const char* content : {"", "0\n", "abc\n", "-4\n"}) {
    ASSERT_OK(PosixStorage()->WriteAll(StateDir() + "/ps-0/epoch", content));
    EXPECT_THAT(StateFolder::Open(PosixStorage(), StateDir(), 0, 5),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("/ps-0/epoch")));
  }
}

TEST(StateFolderTest, AFolderThatCannotBeMadeIsNamed) {
  EXPECT_THAT(
      std::string(StateFolder::Open(PosixStorage(), "/proc/no/state", 0, 5).status().message()),
      HasSubstr("/proc/no"));
}

}  // namespace
}  // namespace monsoon
