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
  void Write(uint64_t last, uint64_t best) {
    MakeJob("a-1");
    for (uint64_t generation = 1; generation <= last; ++generation) {
      Push();
      CheckpointRequest order = OrderOf("a-1", generation);
      order.mutable_context()->mutable_best()->set_generation(generation > best ? best : 0);
      ASSERT_OK(keeper_->Order(shard_->FindJob("a-1", 3), order));
      ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
      ASSERT_EQ(StatusOf("a-1").checkpoint_error(), "");
    }
  }
  void Rot(uint64_t generation) {
    const std::string path =
        absl::StrCat(JobFolder(kStateDir, "a-1", 3), "/ps-0-of-1.g", generation, ".e7.safetensors");
    uint64_t head = 0;
    ASSERT_OK((*storage_.Open(path))->ReadAt(0, std::as_writable_bytes(std::span(&head, 1))));
    storage_.CorruptByte(path, sizeof(head) + head + 5, 3);
  }
  absl::StatusOr<RestoreShardJobReply> Restore(uint64_t held) {
    Restart();
    RestoreShardJobRequest request;
    *request.mutable_create() = MakeCreate("a-1");
    request.set_least_generation(1);
    request.set_held(held);
    return keeper_->Restore(shard_.get(), request);
  }
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

}  // namespace
}  // namespace monsoon
