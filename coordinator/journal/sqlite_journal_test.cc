#include "coordinator/journal/sqlite_journal.h"

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Joins of worker/0, one after the other.
StateUpdates Joined(uint64_t incarnation) {
  StateUpdates updates;
  WorkerIncarnation* const joined = updates.add_update()->mutable_worker_joined();
  joined->set_worker(0);
  joined->set_incarnation(incarnation);
  return updates;
}

class SqliteJournalTest : public ::testing::Test {
 protected:
  SqliteJournalTest() {
    folder_ = absl::StrCat(::testing::TempDir(), "/",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    options_ = {.path = folder_ + "/state.sqlite", .cluster = "c"};
  }
  ~SqliteJournalTest() override { std::filesystem::remove_all(folder_); }

  OpenedJournal Open() {
    absl::StatusOr<OpenedJournal> opened = OpenSqliteJournal(options_);
    EXPECT_OK(opened);
    return *std::move(opened);
  }
  absl::Status OpenStatus() { return OpenSqliteJournal(options_).status(); }
  // Commits joins first..last, each alone.
  static void Commit(Journal* journal, uint64_t first, uint64_t last) {
    for (uint64_t i = first; i <= last; ++i) {
      ASSERT_OK(journal->Commit(Joined(i), absl::Seconds(static_cast<double>(i))));
    }
  }
  // The files as they are while the owner lives, elsewhere: what a process that is killed
  // leaves behind.
  void CopyAside() {
    const std::string aside = folder_ + "/aside";
    std::filesystem::create_directories(aside);
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.is_regular_file()) {
        std::filesystem::copy_file(entry.path(), aside + "/" + entry.path().filename().string(),
                                   std::filesystem::copy_options::overwrite_existing);
      }
    }
    options_.path = aside + "/state.sqlite";
  }

  std::string folder_;
  SqliteJournalOptions options_;
};

TEST_F(SqliteJournalTest, ItsFilesAreForItsUserAlone) {
  const mode_t before = umask(0022);
  const OpenedJournal opened = Open();
  Commit(opened.journal.get(), 1, 2);
  umask(before);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.status().permissions(), std::filesystem::perms(0600)) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 2u);  // the log beside it
}

TEST_F(SqliteJournalTest, WhatIsCommittedIsThereAfterwards) {
  {
    OpenedJournal first = Open();
    EXPECT_EQ(first.state.incarnation(0), 0u);
    EXPECT_EQ(first.at, absl::ZeroDuration());
    Commit(first.journal.get(), 1, 5);
  }
  OpenedJournal second = Open();
  EXPECT_EQ(second.state.incarnation(0), 5u);
  EXPECT_EQ(second.at, absl::Seconds(5));
  Commit(second.journal.get(), 6, 6);
  second.journal.reset();
  EXPECT_EQ(Open().state.incarnation(0), 6u);
}

TEST_F(SqliteJournalTest, AProcessThatIsKilledLosesNothing) {
  OpenedJournal first = Open();
  Commit(first.journal.get(), 1, 7);
  CopyAside();  // nobody has closed it
  EXPECT_EQ(Open().state.incarnation(0), 7u);
}

TEST_F(SqliteJournalTest, BecomesASnapshotNowAndThen) {
  options_.journal_bytes = 100;
  OpenedJournal first = Open();
  Commit(first.journal.get(), 1, 200);
  first.journal.reset();
  const uint64_t bytes = std::filesystem::file_size(options_.path);
  EXPECT_LT(bytes, 40000u);
  OpenedJournal second = Open();
  EXPECT_EQ(second.state.incarnation(0), 200u);
  EXPECT_EQ(second.at, absl::Seconds(200));
}

TEST_F(SqliteJournalTest, AFullDiskLosesNothingAndIsTriedAgain) {
  {
    OpenedJournal opened = Open();
    Commit(opened.journal.get(), 1, 3);
  }
  options_.max_pages = std::filesystem::file_size(options_.path) / 4096;
  OpenedJournal full = Open();
  StateUpdates large = Joined(4);
  large.add_update()->mutable_shard_seen()->set_state_dir(std::string(100000, 'x'));
  EXPECT_THAT(full.journal->Commit(large, absl::Seconds(4)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("state.sqlite")));
  EXPECT_FALSE(full.journal->Commit(large, absl::Seconds(4)).ok());
  // Something smaller goes in, with which the state is whole.
  ASSERT_OK(full.journal->Commit(Joined(4), absl::Seconds(5)));
  full.journal.reset();
  options_.max_pages = 0;
  OpenedJournal after = Open();
  EXPECT_EQ(after.state.incarnation(0), 4u);
  EXPECT_EQ(after.at, absl::Seconds(5));
}

TEST_F(SqliteJournalTest, AnotherClustersStateIsRefused) {
  Open();
  options_.cluster = "d";
  EXPECT_THAT(OpenStatus(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     AllOf(HasSubstr("belongs to cluster \"c\", not to \"d\""),
                                           HasSubstr("state_dir of its own"))));
}

TEST_F(SqliteJournalTest, ANameMayHaveQuotes) {
  options_.cluster = "it's";
  Open();
  EXPECT_OK(OpenStatus());
}

TEST_F(SqliteJournalTest, WhatIsNoStateIsRefused) {
  std::ofstream(options_.path) << std::string(5000, 'x');
  EXPECT_THAT(OpenStatus(),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("state.sqlite is damaged"), HasSubstr("submit --resume"))));
}

// The log of a process that was killed, cut at every page: refused, unless all was in it.
TEST_F(SqliteJournalTest, ALogThatWasCutIsNoticed) {
  OpenedJournal first = Open();
  Commit(first.journal.get(), 1, 7);
  CopyAside();
  const std::string log = options_.path + "-wal";
  const uint64_t bytes = std::filesystem::file_size(log);
  const std::string aside = options_.path;
  int refused = 0;
  for (uint64_t kept = 0; kept < bytes; kept += 4096) {
    options_.path = folder_ + "/state.sqlite";
    CopyAside();
    std::filesystem::resize_file(log, kept);
    const absl::StatusOr<OpenedJournal> opened = OpenSqliteJournal(options_);
    if (opened.ok()) {
      EXPECT_EQ(opened->state.incarnation(0), 7u) << "with " << kept << " bytes";
      continue;
    }
    ++refused;
    EXPECT_THAT(opened.status(),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("and commit 7 was there already"), HasSubstr("-wal"),
                               HasSubstr("delete " + aside + "-commits"))));
  }
  EXPECT_GT(refused, 5);
  // Whoever wants the older state gets it.
  std::filesystem::remove(aside + "-commits");
  EXPECT_LT(Open().state.incarnation(0), 7u);
}

TEST_F(SqliteJournalTest, AnOlderCopyOfTheDatabaseAloneIsNoticed) {
  {
    OpenedJournal opened = Open();
    Commit(opened.journal.get(), 1, 3);
  }
  std::filesystem::copy_file(options_.path, folder_ + "/older");
  {
    OpenedJournal opened = Open();
    Commit(opened.journal.get(), 4, 5);
  }
  std::filesystem::copy_file(folder_ + "/older", options_.path,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(OpenStatus(), StatusIs(absl::StatusCode::kDataLoss,
                                     HasSubstr("ends at commit 3, and commit 5 was there")));
}

// A database of before there were marks, or whose mark is damaged, is taken as it is.
TEST_F(SqliteJournalTest, AMarkThatIsNotWholeSaysNothing) {
  {
    OpenedJournal opened = Open();
    Commit(opened.journal.get(), 1, 3);
  }
  std::ofstream(options_.path + "-commits") << "0123456789abcdef";
  EXPECT_EQ(Open().state.incarnation(0), 3u);
  std::filesystem::resize_file(options_.path + "-commits", 3);
  EXPECT_EQ(Open().state.incarnation(0), 3u);
}

// A bit in many places of a small state: it is refused, or nothing of it has changed.
TEST_F(SqliteJournalTest, ABitThatHasFlippedIsNoticed) {
  std::string state;
  {
    OpenedJournal opened = Open();
    StateUpdates updates = Joined(1);
    updates.add_update()->mutable_shard_seen()->set_state_dir(std::string(500, 'x'));
    ASSERT_OK(opened.journal->Commit(updates, absl::Seconds(1)));
    opened.journal.reset();
    state = Open().state.Serialize();
  }
  std::string bytes;
  {
    std::ifstream file(options_.path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  ASSERT_GT(bytes.size(), 4096u);
  int refused = 0;
  for (size_t at = 0; at < bytes.size(); at += 7) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    std::ofstream(options_.path, std::ios::binary) << damaged;
    std::filesystem::remove(options_.path + "-wal");
    const absl::StatusOr<OpenedJournal> opened = OpenSqliteJournal(options_);
    if (opened.ok()) {
      EXPECT_EQ(opened->state.Serialize(), state) << "at " << at;
      EXPECT_EQ(opened->at, absl::Seconds(1)) << "at " << at;
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace monsoon
