#include "common/storage/simulated_storage.h"

#include <memory>
#include <set>
#include <span>
#include <string>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::IsSupersetOf;
using ::testing::Not;
using testing::StatusIs;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kCuts = 400;

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// "-" where it is missing.
std::string Content(const Storage& storage, const std::string& path) {
  return storage.ReadAll(path, 1 << 20).value_or("-");
}

std::set<std::string> AfterCuts(const SimulatedStorage& storage, const std::string& path) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < kCuts; ++seed) {
    seen.insert(Content(*storage.PowerCut(seed), path));
  }
  return seen;
}

class SimulatedStorageTest : public ::testing::Test {
 protected:
  SimulatedStorageTest() { EXPECT_OK(storage_.MakeFolder("/s")); }

  std::unique_ptr<StorageFile> Write(const std::string& path, const std::string& content) {
    auto file = storage_.Create(path);
    EXPECT_OK(file);
    EXPECT_OK((*file)->WriteAt(0, Bytes(content)));
    return *std::move(file);
  }

  SimulatedStorage storage_;
};

TEST_F(SimulatedStorageTest, WhatIsSyncedIsThere) {
  ASSERT_OK(Write("/s/a", "content")->Sync());
  ASSERT_OK(storage_.SyncFolder("/s"));
  EXPECT_THAT(AfterCuts(storage_, "/s/a"), ElementsAre("content"));
  EXPECT_EQ(Content(*storage_.PowerCut(1)->PowerCut(2), "/s/a"), "content");
}

TEST_F(SimulatedStorageTest, ANameThatIsNotSyncedIsThereOrNot) {
  ASSERT_OK(Write("/s/a", "content")->Sync());
  ASSERT_OK(Write("/s/b", "other")->Sync());
  EXPECT_THAT(AfterCuts(storage_, "/s/a"), ElementsAre("-", "content"));
  std::set<std::string> both;
  for (uint64_t seed = 0; seed < kCuts; ++seed) {
    const auto after = storage_.PowerCut(seed);
    both.insert(Content(*after, "/s/a") + Content(*after, "/s/b"));
  }
  EXPECT_THAT(both, UnorderedElementsAre("--", "content-", "-other", "contentother"));
}

TEST_F(SimulatedStorageTest, ContentThatIsNotSyncedIsThereInPart) {
  Write("/s/a", "1234");
  ASSERT_OK(storage_.SyncFolder("/s"));
  EXPECT_THAT(AfterCuts(storage_, "/s/a"),
              IsSupersetOf({std::string(), std::string("12"), std::string("1234"),
                            std::string(2, '\0'), std::string(4, '\0')}));
}

TEST_F(SimulatedStorageTest, BlocksArriveInAnySubset) {
  constexpr size_t kBlock = 4096;
  const auto file = Write("/s/a", std::string(3 * kBlock, 'o'));
  ASSERT_OK(file->Sync());
  ASSERT_OK(storage_.SyncFolder("/s"));
  ASSERT_OK(file->WriteAt(100, Bytes(std::string(3 * kBlock - 100, 'n'))));
  std::set<std::string> seen;
  for (const std::string& content : AfterCuts(storage_, "/s/a")) {
    ASSERT_EQ(content.size(), 3 * kBlock);
    EXPECT_EQ(content.substr(0, 100), std::string(100, 'o'));
    seen.insert({content[100], content[kBlock - 1], content[kBlock], content[2 * kBlock - 1],
                 content[2 * kBlock], content[3 * kBlock - 1]});
  }
  EXPECT_THAT(seen, UnorderedElementsAre("oooooo", "nnoooo", "oonnoo", "oooonn", "nnnnoo", "nnoonn",
                                         "oonnnn", "nnnnnn"));
}

TEST_F(SimulatedStorageTest, ABlockMayHaveItsFirstWritesOnly) {
  const auto file = Write("/s/a", "oo");
  ASSERT_OK(file->Sync());
  ASSERT_OK(storage_.SyncFolder("/s"));
  ASSERT_OK(file->WriteAt(0, Bytes("1")));
  ASSERT_OK(file->WriteAt(1, Bytes("2")));
  EXPECT_THAT(AfterCuts(storage_, "/s/a"), UnorderedElementsAre("oo", "1o", "12"));
}

TEST_F(SimulatedStorageTest, AFileThatIsEmptiedIsOldOrNewOrCut) {
  ASSERT_OK(Write("/s/a", "old")->Sync());
  ASSERT_OK(storage_.SyncFolder("/s"));
  Write("/s/a", "NE");
  EXPECT_THAT(AfterCuts(storage_, "/s/a"),
              IsSupersetOf({std::string("old"), std::string("NE"), std::string()}));
}

TEST_F(SimulatedStorageTest, ARenameThatIsNotSyncedIsOldOrNew) {
  ASSERT_OK(Write("/s/a", "old")->Sync());
  ASSERT_OK(Write("/s/tmp", "new")->Sync());
  ASSERT_OK(storage_.SyncFolder("/s"));
  ASSERT_OK(storage_.Rename("/s/tmp", "/s/a"));
  EXPECT_THAT(AfterCuts(storage_, "/s/a"), UnorderedElementsAre("old", "new"));
  for (uint64_t seed = 0; seed < kCuts; ++seed) {
    const auto after = storage_.PowerCut(seed);
    EXPECT_EQ(Content(*after, "/s/tmp"), Content(*after, "/s/a") == "old" ? "new" : "-");
  }
  ASSERT_OK(storage_.SyncFolder("/s"));
  EXPECT_THAT(AfterCuts(storage_, "/s/a"), ElementsAre("new"));
  EXPECT_THAT(AfterCuts(storage_, "/s/tmp"), ElementsAre("-"));
}

TEST_F(SimulatedStorageTest, ARenameWithoutASyncMayBringAnEmptyFile) {
  Write("/s/tmp", "new");
  ASSERT_OK(storage_.Rename("/s/tmp", "/s/a"));
  ASSERT_OK(storage_.SyncFolder("/s"));
  EXPECT_THAT(AfterCuts(storage_, "/s/a"), IsSupersetOf({"", "new"}));
}

TEST_F(SimulatedStorageTest, ARemovedFileMayComeBack) {
  ASSERT_OK(Write("/s/a", "old")->Sync());
  ASSERT_OK(storage_.SyncFolder("/s"));
  ASSERT_OK(storage_.Remove("/s/a"));
  EXPECT_THAT(AfterCuts(storage_, "/s/a"), UnorderedElementsAre("-", "old"));
  ASSERT_OK(storage_.SyncFolder("/s"));
  EXPECT_THAT(AfterCuts(storage_, "/s/a"), ElementsAre("-"));
}

TEST_F(SimulatedStorageTest, FoldersThatAreMadeStay) {
  ASSERT_OK(storage_.MakeFolder("/s/b/c"));
  ASSERT_OK(Write("/s/b/c/a", "content")->Sync());
  ASSERT_OK(storage_.SyncFolder("/s/b/c"));
  EXPECT_THAT(AfterCuts(storage_, "/s/b/c/a"), ElementsAre("content"));
}

TEST_F(SimulatedStorageTest, WriteAllIsOldOrNewAtEveryCut) {
  ASSERT_OK(storage_.WriteAll("/s/a", "old"));
  const uint64_t before = storage_.operations();
  ASSERT_OK(storage_.WriteAll("/s/a", "new"));
  const uint64_t steps = storage_.operations() - before;
  EXPECT_THAT(AfterCuts(storage_, "/s/a"), ElementsAre("new"));
  std::set<std::string> seen;
  for (uint64_t step = 1; step <= steps; ++step) {
    SimulatedStorage storage;
    ASSERT_OK(storage.MakeFolder("/s"));
    ASSERT_OK(storage.WriteAll("/s/a", "old"));
    storage.FailAfter(step, absl::UnavailableError("off"));
    EXPECT_FALSE(storage.WriteAll("/s/a", "new").ok());
    seen.merge(AfterCuts(storage, "/s/a"));
  }
  EXPECT_THAT(seen, UnorderedElementsAre("old", "new"));
}

TEST_F(SimulatedStorageTest, FailuresBeginWhereTheyAreAsked) {
  storage_.FailAfter(3, absl::ResourceExhaustedError("No space left on device"));
  auto file = Write("/s/a", "content");  // two operations
  EXPECT_THAT(file->Sync(),
              StatusIs(absl::StatusCode::kResourceExhausted, "sync /s/a: No space left on device"));
  EXPECT_FALSE(storage_.Create("/s/b").ok());
  EXPECT_FALSE(storage_.Remove("/s/a").ok());
  EXPECT_EQ(Content(storage_, "/s/a"), "content");
  storage_.ClearFailure();
  EXPECT_OK(storage_.SyncFolder("/s"));
  // What a system forgot is not found again by asking twice.
  EXPECT_FALSE(file->Sync().ok());
}

TEST_F(SimulatedStorageTest, SomeReadsOfOneFileFail) {
  ASSERT_OK(storage_.WriteAll("/s/a", "abc"));
  ASSERT_OK(storage_.WriteAll("/s/b", "abc"));
  storage_.FailReads("/s/a", /*n=*/2, /*count=*/1, absl::UnavailableError("Input/output error"));
  EXPECT_OK(storage_.ReadAll("/s/a", 10));
  EXPECT_OK(storage_.ReadAll("/s/b", 10));
  EXPECT_THAT(storage_.ReadAll("/s/a", 10),
              StatusIs(absl::StatusCode::kUnavailable, "read /s/a: Input/output error"));
  EXPECT_OK(storage_.ReadAll("/s/a", 10));
}

TEST_F(SimulatedStorageTest, AFailedWriteLeavesAPart) {
  std::set<size_t> sizes;
  for (uint64_t i = 1; i <= 50; ++i) {
    const auto file = Write("/s/a", "");
    storage_.FailAfter(1, absl::UnavailableError("Input/output error"));
    EXPECT_FALSE(file->WriteAt(0, Bytes(std::string(10, 'x'))).ok());
    storage_.ClearFailure();
    sizes.insert(Content(storage_, "/s/a").size());
  }
  EXPECT_GT(sizes.size(), 5u);
}

TEST_F(SimulatedStorageTest, OperationsAreCounted) {
  EXPECT_EQ(storage_.operations(), 1u);
  ASSERT_OK(storage_.WriteAll("/s/a", "x"));
  EXPECT_EQ(storage_.operations(), 6u);
  EXPECT_OK(storage_.List("/s"));
  EXPECT_EQ(storage_.operations(), 6u);
}

TEST_F(SimulatedStorageTest, TheDiskHasAnEnd) {
  storage_.SetCapacity(10);
  const auto file = Write("/s/a", "1234567");
  EXPECT_THAT(storage_.FreeBytes("/s"), IsOk());
  EXPECT_EQ(*storage_.FreeBytes("/s"), 3u);
  EXPECT_OK(file->WriteAt(0, Bytes("765")));
  EXPECT_THAT(file->WriteAt(7, Bytes("8901")),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("No space left")));
  EXPECT_LE(Content(storage_, "/s/a").size(), 10u);
  ASSERT_OK(storage_.Remove("/s/a"));
  EXPECT_EQ(*storage_.FreeBytes("/s"), 10u);
}

TEST_F(SimulatedStorageTest, RotAndCutsAreOnTheDiskToo) {
  ASSERT_OK(Write("/s/a", "AB")->Sync());
  ASSERT_OK(storage_.SyncFolder("/s"));
  storage_.CorruptByte("/s/a", 1, 0);
  EXPECT_THAT(AfterCuts(storage_, "/s/a"), ElementsAre("AC"));
  storage_.Truncate("/s/a", 1);
  EXPECT_THAT(AfterCuts(storage_, "/s/a"), ElementsAre("A"));
}

TEST_F(SimulatedStorageTest, ASeedAlwaysGivesTheSame) {
  Write("/s/a", std::string(9000, 'x'));
  Write("/s/b", std::string(9000, 'y'));
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(Content(*storage_.PowerCut(seed), "/s/a"), Content(*storage_.PowerCut(seed), "/s/a"));
  }
}

}  // namespace
}  // namespace monsoon
