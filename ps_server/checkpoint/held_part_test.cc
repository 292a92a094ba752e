// Folders that are put back: the coordinator says which generation all shards have written.

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/checkpoint/keeper_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class HeldPartTest : public CheckpointKeeperTest {
 protected:
  // Generation `best` stays beside the newest two.
  void Write(uint64_t last, uint64_t best, const std::string& job = "a-1") {
    MakeJob(job);
    for (uint64_t generation = 1; generation <= last; ++generation) {
      Push();
      CheckpointRequest order = OrderOf(job, generation);
      order.mutable_context()->mutable_best()->set_generation(generation > best ? best : 0);
      ASSERT_OK(keeper_->Order(shard_->FindJob(job, 3), order));
      ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
      ASSERT_EQ(StatusOf(job).checkpoint_error(), "");
    }
  }
  std::string PartOf(uint64_t generation, const std::string& job) const {
    return absl::StrCat(JobFolder(kStateDir, job, 3), "/ps-0-of-1.g", generation, ".e", epoch_,
                        ".safetensors");
  }
  // A part of this life.
  void Rot(uint64_t generation, const std::string& job = "a-1") {
    const std::string path = PartOf(generation, job);
    uint64_t head = 0;
    ASSERT_OK((*storage_.Open(path))->ReadAt(0, std::as_writable_bytes(std::span(&head, 1))));
    storage_.CorruptByte(path, sizeof(head) + head + 5, 3);
  }
  absl::StatusOr<RestoreShardJobReply> Restore(uint64_t held, const std::string& job = "a-1") {
    Restart();
    RestoreShardJobRequest request;
    *request.mutable_create() = MakeCreate(job);
    request.set_least_generation(1);
    request.set_held(held);
    request.set_given_up_by(given_up_by_);
    return keeper_->Restore(shard_.get(), request);
  }

  std::string given_up_by_;
};

TEST_F(HeldPartTest, AFolderWithoutItIsWaitedForByName) {
  Write(3, 0);
  const auto waits = StatusIs(
      absl::StatusCode::kUnavailable,
      AllOf(HasSubstr("waits for ps/0's state folder with generation 8 of a-1; found: 3")));
  EXPECT_THAT(Restore(8), waits);
  EXPECT_THAT(Restore(8), waits);
  EXPECT_EQ(shard_->FindJob("a-1", 3), nullptr);
  // The right one, or a newer part that the coordinator has not heard of.
  ASSERT_OK_AND_ASSIGN(RestoreShardJobReply reply, Restore(3));
  EXPECT_EQ(reply.generation(), 3u);
  ASSERT_OK_AND_ASSIGN(reply, Restore(2));
  EXPECT_EQ(reply.generation(), 3u);
}

TEST_F(HeldPartTest, AnEmptyFolderIsWaitedForByName) {
  EXPECT_THAT(Restore(2),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("waits for ps/0's state folder with generation 2 of a-1; "
                                 "found: none")));
}

// Somebody says that it will not come back; where it is there after all, it is taken.
TEST_F(HeldPartTest, AFolderThatIsGivenUpIsNotWaitedFor) {
  Write(3, 0);
  given_up_by_ = "ann@desk";
  EXPECT_THAT(Restore(8),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("ann@desk has given up ps/0's state folder with generation 8 of "
                                 "a-1; found: 3")));
  EXPECT_EQ(shard_->FindJob("a-1", 3), nullptr);
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore(3));
  EXPECT_EQ(reply.generation(), 3u);
}

// Of a life that died while it wrote: a copy may have been made just then.
TEST_F(HeldPartTest, AnUnfinishedPartDoesNotTellThatItIsTheRightFolder) {
  int unfinished = 0;
  for (uint64_t after = 1; after < 12; ++after) {
    const std::string job = absl::StrCat("a-", after);
    Write(2, 0, job);
    storage_.FailAfter(after, absl::UnavailableError("the life ends"));
    ASSERT_OK(keeper_->Order(shard_->FindJob(job, 3), OrderOf(job, 3)));
    ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
    storage_.ClearFailure();
    ASSERT_OK_AND_ASSIGN(const std::vector<OwnPart> parts,
                         ListOwnParts(storage_, JobFolder(kStateDir, job, 3), 0));
    if (!parts.front().whole) {
      ++unfinished;
      EXPECT_THAT(Restore(3, job), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("found: 2")));
    }
  }
  EXPECT_GT(unfinished, 0);
}

TEST_F(HeldPartTest, OneDamagedPartFallsBackByOneGeneration) {
  Write(5, 1);
  Rot(5);
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore(5));
  EXPECT_EQ(reply.generation(), 4u);
}

TEST_F(HeldPartTest, BeneathTwoDamagedPartsTheBestOneIsNotTaken) {
  Write(5, 1);
  Rot(5);
  Rot(4);
  EXPECT_THAT(Restore(5), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no good part")));
}

// A damaged part, a life that goes on from the one before it, and that life's part damaged as well:
// what the first has cost is known by then, and only the second counts. Wherever that life ends.
TEST_F(HeldPartTest, ADamagedPartThatWasPassedOverDoesNotCountBesideTheNext) {
  bool ends = true;
  uint64_t both = 0;
  for (uint64_t after = 1; ends; ++after) {
    const std::string job = absl::StrCat("a-", after);
    Write(3, 0, job);
    Rot(3, job);
    ASSERT_OK_AND_ASSIGN(RestoreShardJobReply reply, Restore(3, job));
    ASSERT_EQ(reply.generation(), 2u) << after;
    const uint64_t before = storage_.operations();
    storage_.FailAfter(after, absl::UnavailableError("the life ends"));
    ASSERT_OK(keeper_->Order(shard_->FindJob(job, 3), OrderOf(job, 4)));
    ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
    ends = storage_.operations() >= before + after;
    storage_.ClearFailure();
    if (storage_.Open(PartOf(4, job)).ok()) {
      Rot(4, job);
      ++both;
    }
    ASSERT_OK_AND_ASSIGN(reply, Restore(3, job));
    ASSERT_EQ(reply.generation(), 2u) << after;
  }
  EXPECT_GT(both, 2u);
}

}  // namespace
}  // namespace monsoon
