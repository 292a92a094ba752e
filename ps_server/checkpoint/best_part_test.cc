// The part of a job's best generation, and the copy over which the test set is run.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/protocol.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/checkpoint/keeper_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;

class BestPartTest : public CheckpointKeeperTest {
 protected:
  // Orders and waits; `best` is the best generation before it.
  void WriteWith(uint64_t generation, uint64_t best, bool to_be_tested = false) {
    CheckpointRequest order = OrderOf("a-1", generation);
    order.mutable_context()->mutable_best()->set_generation(best);
    order.mutable_context()->set_to_be_tested(to_be_tested);
    ASSERT_OK(keeper_->Order(shard_->FindJob("a-1", 3), order));
    ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
    ASSERT_EQ(StatusOf("a-1").checkpoint_error(), "");
  }
  // The newest first.
  std::vector<uint64_t> OnDisk() {
    const auto listed = ListGenerations(&storage_, JobFolder(kStateDir, "a-1", 3));
    EXPECT_OK(listed);
    std::vector<uint64_t> generations;
    for (const GenerationParts& parts : *listed) {
      generations.push_back(parts.generation);
    }
    return generations;
  }
  void NextLife() {
    Restart();
    RestoreShardJobRequest request;
    *request.mutable_create() = MakeCreate("a-1");
    EXPECT_OK(keeper_->Restore(shard_.get(), request).status());
  }
  // The first float of the copy; the pushes are of 1 each.
  float Tested() {
    const auto vector = shard_->FindJob("a-1", 3)->vectors()->Find(kTestedVector);
    EXPECT_OK(vector.status());
    return vector.ok() ? (*vector)->data()[0] : -1;
  }
};

TEST_F(BestPartTest, StaysBesideTheTwoNewest) {
  MakeJob("a-1");
  WriteWith(1, 0);
  WriteWith(2, 1);
  WriteWith(3, 1);
  EXPECT_THAT(OnDisk(), ElementsAre(3, 2, 1));
  WriteWith(4, 1);
  WriteWith(5, 1);
  EXPECT_THAT(OnDisk(), ElementsAre(5, 4, 1));
  WriteWith(6, 5);
  EXPECT_THAT(OnDisk(), ElementsAre(6, 5)) << "it is one of them now";
  WriteWith(7, 5);
  EXPECT_THAT(OnDisk(), ElementsAre(7, 6, 5));
}

TEST_F(BestPartTest, CountsAsBytesOnTheDisk) {
  MakeJob("a-1");
  WriteWith(1, 0);
  const uint64_t one = StatusOf("a-1").disk_bytes();
  WriteWith(2, 1);
  WriteWith(3, 1);
  WriteWith(4, 1);
  EXPECT_GE(StatusOf("a-1").disk_bytes(), 3 * one);
}

TEST_F(BestPartTest, SurvivesTheShard) {
  MakeJob("a-1");
  WriteWith(1, 0);
  WriteWith(2, 1);
  WriteWith(3, 1);
  WriteWith(4, 1);
  NextLife();
  EXPECT_THAT(OnDisk(), ElementsAre(4, 3, 1));
  WriteWith(5, 1);
  EXPECT_THAT(OnDisk(), ElementsAre(5, 4, 1));
  WriteWith(6, 5);
  EXPECT_THAT(OnDisk(), ElementsAre(6, 5));
}

// Else the best part would be removed with the next one.
TEST_F(BestPartTest, StaysWhereAReadOfItFails) {
  MakeJob("a-1");
  WriteWith(1, 0);
  WriteWith(2, 1);
  WriteWith(3, 1);
  WriteWith(4, 1);
  const std::string best =
      absl::StrCat(JobFolder(kStateDir, "a-1", 3), "/ps-0-of-1.g1.e", kEpoch, ".manifest");
  Restart();
  RestoreShardJobRequest request;
  *request.mutable_create() = MakeCreate("a-1");
  storage_.FailReads(best, /*n=*/1, /*count=*/1, absl::UnavailableError("Input/output error"));
  EXPECT_THAT(keeper_->Restore(shard_.get(), request),
              StatusIs(absl::StatusCode::kUnavailable, ::testing::HasSubstr(best)));
  EXPECT_OK(keeper_->Restore(shard_.get(), request));
  WriteWith(5, 1);
  EXPECT_THAT(OnDisk(), ElementsAre(5, 4, 1));
}

TEST_F(BestPartTest, TheCopyIsWhatThePartHolds) {
  MakeJob("a-1");
  Push();
  Push();
  WriteWith(1, 0, /*to_be_tested=*/true);
  Push();
  EXPECT_EQ(Tested(), 2);
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, Load("a-1"));
  const auto vector = shard_->FindJob("a-1", 3)->vectors()->Find(kTestedVector);
  ASSERT_OK(vector.status());
  EXPECT_EQ(std::vector<float>((*vector)->data(), (*vector)->data() + (*vector)->size()),
            loaded.parameters);
  WriteWith(2, 0);
  EXPECT_EQ(Tested(), 2) << "another generation came meanwhile";
  WriteWith(3, 0, /*to_be_tested=*/true);
  EXPECT_EQ(Tested(), 3);
}

TEST_F(BestPartTest, ANewLifeHasNoCopy) {
  MakeJob("a-1");
  WriteWith(1, 0, /*to_be_tested=*/true);
  NextLife();
  EXPECT_THAT(shard_->FindJob("a-1", 3)->vectors()->Find(kTestedVector).status(),
              StatusIs(absl::StatusCode::kNotFound, _));
}

// Orders are repeated.
TEST_F(BestPartTest, ADiskThatFailsCostsNoCopyTwice) {
  MakeJob("a-1");
  Push();
  storage_.FailAfter(3, absl::ResourceExhaustedError("No space left on device"));
  CheckpointRequest order = OrderOf("a-1", 1);
  order.mutable_context()->set_to_be_tested(true);
  ASSERT_OK(keeper_->Order(shard_->FindJob("a-1", 3), order));
  ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
  storage_.ClearFailure();
  Push();
  WriteWith(1, 0, /*to_be_tested=*/true);
  EXPECT_EQ(Tested(), 2);
}

}  // namespace
}  // namespace monsoon
