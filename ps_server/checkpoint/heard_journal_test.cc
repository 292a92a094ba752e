#include "ps_server/checkpoint/heard_journal.h"

#include "absl/status/status.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

constexpr char kFile[] = "/state/ps-0/coordinator";

JournalMark MarkOf(uint64_t id, uint64_t life, uint64_t begin, uint64_t commits,
                   uint64_t replaces = 0) {
  JournalMark mark;
  mark.set_id(id);
  mark.set_life(life);
  mark.set_begin(begin);
  mark.set_commits(commits);
  mark.set_replaces(replaces);
  return mark;
}

class HeardJournalTest : public ::testing::Test {
 protected:
  HeardJournalTest() { EXPECT_OK(storage_.MakeFolder("/state/ps-0")); }

  SimulatedStorage storage_;
  HeardJournal heard_{&storage_, kFile};
};

TEST_F(HeardJournalTest, TheNewestOfOneFolderIsRemembered) {
  EXPECT_FALSE(heard_.newest().has_value());
  EXPECT_EQ(heard_.Hear(MarkOf(7, 1, 0, 3)).commits(), 3u);
  EXPECT_EQ(heard_.Hear(MarkOf(7, 1, 0, 9)).commits(), 9u);
  // A copy of a message that comes late.
  EXPECT_EQ(heard_.Hear(MarkOf(7, 1, 0, 5)).commits(), 9u);
  // The next life begins with all of it, or with more than was heard of.
  EXPECT_EQ(heard_.Hear(MarkOf(7, 2, 9, 9)).life(), 2u);
  EXPECT_EQ(heard_.Hear(MarkOf(7, 3, 12, 14)).life(), 3u);
}

TEST_F(HeardJournalTest, AnOlderCopyOrAnotherFolderDoesNotTakeItsPlace) {
  heard_.Hear(MarkOf(7, 2, 0, 20));
  EXPECT_EQ(heard_.Hear(MarkOf(7, 3, 19, 40)).life(), 2u);
  EXPECT_EQ(heard_.Hear(MarkOf(8, 3, 100, 100)).id(), 7u);
  EXPECT_EQ(heard_.Hear(MarkOf(8, 3, 100, 100, /*replaces=*/6)).id(), 7u);
  EXPECT_EQ(heard_.Hear(JournalMark()).id(), 7u);
  // People have given it up.
  EXPECT_EQ(heard_.Hear(MarkOf(8, 3, 100, 100, /*replaces=*/7)).id(), 8u);
  EXPECT_EQ(heard_.Hear(MarkOf(7, 2, 0, 30)).id(), 8u);
}

TEST_F(HeardJournalTest, ItOutlivesTheProcess) {
  heard_.Hear(MarkOf(7, 2, 0, 20));
  heard_.Hear(MarkOf(7, 2, 0, 30));
  EXPECT_EQ(HeardJournal(&storage_, kFile).newest()->commits(), 20u);
  heard_.Keep();
  const HeardJournal next(&storage_, kFile);
  EXPECT_EQ(next.newest()->id(), 7u);
  EXPECT_EQ(next.newest()->life(), 2u);
  EXPECT_EQ(next.newest()->commits(), 30u);
}

TEST_F(HeardJournalTest, WhatCannotBeWrittenOrReadIsPassedOver) {
  storage_.FailAfter(1, absl::ResourceExhaustedError("No space left on device"));
  EXPECT_EQ(heard_.Hear(MarkOf(7, 2, 0, 20)).commits(), 20u);
  storage_.ClearFailure();
  EXPECT_FALSE(HeardJournal(&storage_, kFile).newest().has_value());
  ASSERT_OK(storage_.WriteAll(kFile, "of what?\n"));
  EXPECT_FALSE(HeardJournal(&storage_, kFile).newest().has_value());
  HeardJournal without(&storage_, "");
  EXPECT_EQ(without.Hear(MarkOf(7, 2, 0, 20)).commits(), 20u);
}

}  // namespace
}  // namespace monsoon
