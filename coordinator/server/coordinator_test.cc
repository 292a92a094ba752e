// The driver: threads, deadlines and order, against shards that hang and fail.
#include "coordinator/server/coordinator.h"

#include <atomic>
#include <set>
#include <thread>

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

TEST_F(CoordinatorTest, SaysWhyOthersMayNotReachIt) {
  Submit();
  EXPECT_EQ(coordinator_->Describe("latest")->trouble_size(), 0);
  coordinator_->NoteTrouble("takes no new connections");
  EXPECT_EQ(coordinator_->Info()->trouble(), "takes no new connections");
  ASSERT_EQ(coordinator_->Describe("latest")->trouble_size(), 1);
  EXPECT_EQ(coordinator_->Describe("latest")->trouble(0).task(), "coordinator/0");
  ASSERT_OK(coordinator_->Cancel("latest"));
  EXPECT_TRUE(Await([&] { return coordinator_->Describe("latest")->trouble().empty(); }));
}

// Of a job with files, which worker/0 says something of; the answer to the submission.
class CoordinatorDataTest : public CoordinatorTest {
 protected:
  absl::StatusOr<SubmitReply> SubmitWith(DataReport report) {
    Job job = SmallJob();
    job.mutable_train()->mutable_npy()->set_images("/data/x.npy");
    job.mutable_train()->mutable_npy()->set_labels("/data/y.npy");
    SubmitRequest request;
    *request.mutable_job() = job;
    Beat();  // worker/0 is there
    std::atomic<bool> answered = false;
    absl::StatusOr<SubmitReply> reply;
    std::thread client([&] {
      reply = coordinator_->Submit(request, {});
      answered = true;
    });
    EXPECT_TRUE(Await([&] {
      const HeartbeatReply beat = Beat();
      if (beat.has_data_question()) {
        EXPECT_EQ(beat.data_question().job().train().npy().images(), "/data/x.npy");
        report.set_number(beat.data_question().number());
        report.set_term(beat.term());
        Report(report);
      }
      return answered.load();
    }));
    client.join();
    return reply;
  }
  void Report(const DataReport& report) {
    HeartbeatRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_cluster("c");
    request.set_incarnation(incarnation_);
    request.set_term(term_);
    request.set_pid(9);
    *request.mutable_data_report() = report;
    EXPECT_OK(coordinator_->Heartbeat(request));
  }
};

TEST_F(CoordinatorDataTest, DataThatAWorkerCannotReadAreRefusedByItsName) {
  DataReport report;
  report.add_error()->set_field("train.npy.images");
  report.mutable_error(0)->set_message("/data/x.npy: no such file");
  ASSERT_OK_AND_ASSIGN(const SubmitReply reply, SubmitWith(report));
  EXPECT_EQ(reply.job(), "");
  EXPECT_FALSE(reply.data_awaited());
  ASSERT_EQ(reply.data_error_size(), 1);
  EXPECT_EQ(reply.data_error(0).message(), "worker/0: /data/x.npy: no such file");
  EXPECT_EQ(coordinator_->List()->job_size(), 0);
}

TEST_F(CoordinatorDataTest, DataThatAWorkerHasSeenAreWhatTheJobTrainsOn) {
  DataReport report;
  report.mutable_train()->set_examples(100);
  report.add_warning()->set_message("the column is an index");
  ASSERT_OK_AND_ASSIGN(const SubmitReply reply, SubmitWith(report));
  EXPECT_EQ(reply.job(), "small-1");
  EXPECT_FALSE(reply.data_awaited());
  EXPECT_EQ(reply.data_seen(), "worker/0: train 100 samples");
  ASSERT_EQ(reply.data_warning_size(), 1);
  EXPECT_EQ(reply.data_warning(0).message(), "worker/0: the column is an index");
  std::set<uint32_t> blocks;
  Train(&blocks);
  EXPECT_EQ(blocks.size(), 5u);
}

TEST_F(CoordinatorDataTest, DataThatTheJobIsTooLargeForAreRefused) {
  DataReport report;
  report.mutable_train()->set_examples(3);
  EXPECT_THAT(SubmitWith(report).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a batch of 10 is larger than the training data of 3")));
  EXPECT_EQ(coordinator_->List()->job_size(), 0);
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
  EXPECT_THAT(Summary().reason(), HasSubstr("ps/1 (pid 101) at unix:ps1 is lost"));
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
  EXPECT_THAT(coordinator_->Submit(request, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch_size")));
  EXPECT_EQ(coordinator_->List()->job_size(), 0);
}

}  // namespace
}  // namespace monsoon
