// The driver: threads, deadlines and order, against shards that hang and fail.
#include "coordinator/server/coordinator.h"

#include <set>

#include "coordinator/server/coordinator_fixture.h"
#include "gmock/gmock.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoordinatorTest;
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

TEST_F(CoordinatorTest, RunsAJobToTheEnd) {
  EXPECT_EQ(Submit(), "small-1");
  std::set<uint32_t> blocks;
  Train(&blocks);
  EXPECT_EQ(blocks.size(), 5u);
  ASSERT_TRUE(Await([&] { return Summary().state() == SUCCEEDED; }));
  EXPECT_EQ(gateways_[0]->open(), 0);
  EXPECT_EQ(gateways_[1]->open(), 0);
  ASSERT_OK(coordinator_->Locate("small-1"));
  // Delete returns after the slices are gone.
  ASSERT_OK(coordinator_->Delete("small-1"));
  EXPECT_EQ(gateways_[0]->jobs() + gateways_[1]->jobs(), 0u);
  EXPECT_THAT(coordinator_->Describe("small-1").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("small-1")));
}

class DurableCoordinatorTest : public CoordinatorTest {
 protected:
  DurableCoordinatorTest() : CoordinatorTest("/state") {}
};

TEST_F(DurableCoordinatorTest, AJobEndsWithItsLastCheckpointOnTheDisk) {
  Submit();
  std::set<uint32_t> blocks;
  Train(&blocks);
  ASSERT_TRUE(Await([&] { return Summary().state() == SUCCEEDED; }));
  const JobDescription description = *coordinator_->Describe("latest");
  EXPECT_GE(description.durability().generation(), 1u);
  EXPECT_EQ(description.durability().ordered(), 0u);
  ASSERT_OK_AND_ASSIGN(const CheckpointOrder order, coordinator_->Checkpoint("latest"));
  EXPECT_EQ(order.generation(), description.durability().generation());
}

TEST_F(DurableCoordinatorTest, OneThatIsAskedForIsThereLongBeforeItsTime) {
  Submit();
  ASSERT_TRUE(Await([&] { return Beat().has_assignment(); }));
  ASSERT_OK_AND_ASSIGN(const CheckpointOrder order, coordinator_->Checkpoint("latest"));
  ASSERT_TRUE(Await([&] {
    return coordinator_->Describe("latest")->durability().generation() >= order.generation();
  }));
}

TEST_F(DurableCoordinatorTest, AShardThatIsStartedAgainGetsItsSliceBack) {
  Submit();
  ASSERT_TRUE(Await([&] { return Beat().has_assignment(); }));
  gateways_[1]->Restart();
  ASSERT_TRUE(Await([&] {
    const HeartbeatReply beat = Beat();
    return beat.has_assignment() && beat.assignment().shard_epoch(1) == 8;
  }));
  EXPECT_EQ(gateways_[1]->jobs(), 1u);
  const JobDescription description = *coordinator_->Describe("latest");
  EXPECT_EQ(description.counts().restores(), 1u);
  EXPECT_EQ(description.summary().state(), RUNNING);
  std::set<uint32_t> blocks;
  Train(&blocks);
  ASSERT_TRUE(Await([&] { return Summary().state() == SUCCEEDED; }));
}

TEST_F(CoordinatorTest, AHangingShardIsNamedAndDelaysNobodyElse) {
  Submit();
  HeartbeatReply beat;
  ASSERT_TRUE(Await([&] { return (beat = Beat()).has_assignment(); }));
  gateways_[1]->Hang(true);
  ASSERT_TRUE(Await([&] {
    Beat();
    return Summary().state() == FAILED;
  }));
  EXPECT_THAT(Summary().reason(), HasSubstr("ps/1 (pid 101) at unix-abstract:ps1 is lost"));
  EXPECT_EQ(gateways_[0]->open(), 0);
  const InfoReply info = *coordinator_->Info();
  EXPECT_EQ(info.task(0).state(), "UP");
  EXPECT_EQ(info.task(1).state(), "LOST");
  EXPECT_EQ(info.task(2).state(), "UP");
  gateways_[1]->Hang(false);
}

TEST_F(CoordinatorTest, ASilentWorkerIsLostAndTheJobCancelled) {
  Submit();
  HeartbeatReply beat;
  ASSERT_TRUE(Await([&] { return (beat = Beat()).has_assignment(); }));
  ASSERT_TRUE(Await([&] { return gateways_[0]->open() == 0 && gateways_[1]->open() == 0; }));
  EXPECT_EQ(coordinator_->Info()->task(2).state(), "LOST");
  EXPECT_TRUE(Beat().rejoin());
  ASSERT_OK(coordinator_->Cancel("latest"));
  ASSERT_TRUE(Await([&] { return Summary().state() == CANCELLED; }));
}

TEST_F(CoordinatorTest, BadJobsAreRefusedBeforeAnythingStarts) {
  SubmitRequest request;
  *request.mutable_job() = SmallJob();
  request.mutable_job()->set_batch_size(0);
  EXPECT_THAT(coordinator_->Submit(request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch_size")));
  EXPECT_EQ(coordinator_->List()->job_size(), 0);
}

}  // namespace
}  // namespace monsoon
