#include "ps_server/shard/slice_writing.h"

#include <string>

#include "absl/status/status.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

auto Refused(const std::string& a, const std::string& b) {
  return StatusIs(absl::StatusCode::kFailedPrecondition, AllOf(HasSubstr(a), HasSubstr(b)));
}

TEST(SliceWritingTest, IsReadableOnceSealed) {
  SliceWriting writing(/*must_be_sealed=*/true);
  EXPECT_FALSE(writing.readable());
  ASSERT_OK(writing.Begin(1));
  ASSERT_OK(writing.Begin(1));
  EXPECT_FALSE(writing.readable());
  ASSERT_OK_AND_ASSIGN(const bool may, writing.MaySeal(1, 0xab));
  EXPECT_TRUE(may);
  EXPECT_FALSE(writing.readable());
  writing.Seal(0xab);
  EXPECT_TRUE(writing.readable());
  EXPECT_TRUE(SliceWriting(/*must_be_sealed=*/false).readable());
}

TEST(SliceWritingTest, AnEarlierWriterIsRefusedWithBothNumbers) {
  SliceWriting writing(true);
  ASSERT_OK(writing.Begin(1));
  ASSERT_OK(writing.Begin(3));
  EXPECT_THAT(writing.Begin(1).status(), Refused("writer 1 comes late", "writer 3 has taken over"));
  EXPECT_THAT(writing.MaySeal(2, 5).status(), Refused("writer 2 comes late", "writer 3"));
  EXPECT_EQ(writing.writer(), 3u);
}

TEST(SliceWritingTest, ASealIsRepeatedAndNotChanged) {
  SliceWriting writing(true);
  ASSERT_OK(writing.Begin(4));
  writing.Seal(0xab);
  ASSERT_OK_AND_ASSIGN(const bool may, writing.MaySeal(4, 0xab));
  EXPECT_FALSE(may);
  EXPECT_THAT(writing.MaySeal(4, 0xac).status(),
              Refused("checksum 00000000000000ab", "not 00000000000000ac"));
}

// Where the seal of another shard was lost, its writer writes everything once more.
TEST(SliceWritingTest, WhatItsWriterHasSealedIsNotWrittenAgain) {
  SliceWriting writing(true);
  ASSERT_OK_AND_ASSIGN(const bool first, writing.Begin(4));
  EXPECT_TRUE(first);
  writing.Seal(0xab);
  ASSERT_OK_AND_ASSIGN(const bool again, writing.Begin(4));
  EXPECT_FALSE(again);
  EXPECT_TRUE(writing.readable());
  ASSERT_OK_AND_ASSIGN(const bool next, writing.Begin(5));
  EXPECT_TRUE(next);
}

TEST(SliceWritingTest, ALaterWriterOpensItAgain) {
  SliceWriting writing(true);
  ASSERT_OK(writing.Begin(1));
  writing.Seal(0xab);
  EXPECT_THAT(writing.MaySeal(2, 0xab).status(), Refused("writer 2", "the last writer is 1"));
  EXPECT_TRUE(writing.readable());
  ASSERT_OK(writing.Begin(2));
  EXPECT_FALSE(writing.readable());
  ASSERT_OK(writing.MaySeal(2, 0xab));
}

TEST(SliceWritingTest, WhatWasNotWrittenIsNotSealed) {
  EXPECT_THAT(SliceWriting(true).MaySeal(0, 0).status(), Refused("writer 0", "written nothing"));
  EXPECT_THAT(SliceWriting(true).MaySeal(1, 0).status(), Refused("writer 1", "written nothing"));
}

TEST(SliceWritingTest, ARestoredSliceIsReadAndNotWritten) {
  SliceWriting writing(true);
  writing.Restore();
  EXPECT_TRUE(writing.readable());
  EXPECT_THAT(writing.Begin(9).status(), Refused("restored from a checkpoint", "writer 9"));
  SliceWriting other(false);
  other.Restore();
  EXPECT_OK(other.Begin(0));
  EXPECT_OK(other.Begin(9));
}

}  // namespace
}  // namespace monsoon
