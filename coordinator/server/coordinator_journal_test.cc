// The driver and its journal: nothing leaves the coordinator before it is on the disk.
#include <atomic>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "coordinator/journal/journal.h"
#include "coordinator/server/coordinator_fixture.h"
#include "coordinator/state/state_writer.h"
#include "gmock/gmock.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoordinatorTest;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// What was committed; outlives the coordinators.
class Disk {
 public:
  absl::Status Commit(const StateUpdates& updates, absl::Duration at) {
    MutexLock lock(&mutex_);
    if (!error_.ok()) {
      return error_;
    }
    for (const StateUpdate& update : updates.update()) {
      EXPECT_OK(state_.Apply(update));
    }
    at_ = at;
    return absl::OkStatus();
  }
  void SetError(absl::Status error) {
    MutexLock lock(&mutex_);
    error_ = std::move(error);
  }
  OpenedJournal Open();

 private:
  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  CoordinatorState state_ ABSL_GUARDED_BY(mutex_);
  absl::Duration at_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
};

class MemoryJournal : public Journal {
 public:
  explicit MemoryJournal(Disk* disk) : disk_(disk) {}
  absl::Status Commit(const StateUpdates& updates, absl::Duration at) override {
    return disk_->Commit(updates, at);
  }

 private:
  Disk* const disk_;
};

OpenedJournal Disk::Open() {
  MutexLock lock(&mutex_);
  return {std::make_unique<MemoryJournal>(this), state_, at_};
}

class CoordinatorJournalTest : public CoordinatorTest {
 protected:
  CoordinatorJournalTest() : CoordinatorTest("/state") {
    cluster_.set_rpc_deadline_ms(400);
    StartCoordinator(disk_.Open());
  }
  ~CoordinatorJournalTest() override { coordinator_.reset(); }

  Disk disk_;
};

TEST_F(CoordinatorJournalTest, AJobGoesOnWithTheNextLife) {
  EXPECT_EQ(Submit(), "small-1");
  ASSERT_TRUE(Await([&] { return Beat().has_assignment(); }));
  StartCoordinator(disk_.Open());
  // Until a shard has said of which journal it knows, this one may be an older copy.
  ASSERT_TRUE(Await([&] { return TryBeat().ok(); }));
  EXPECT_TRUE(Beat().has_assignment()) << "it is in its session still";
  std::set<uint32_t> blocks;
  Train(&blocks);
  ASSERT_TRUE(Await([&] { return Summary().state() == SUCCEEDED; }));
  EXPECT_EQ(blocks.size(), 5u);
  StartCoordinator(disk_.Open());
  EXPECT_EQ(Summary().state(), SUCCEEDED);
}

TEST_F(CoordinatorJournalTest, NothingIsToldBeforeItIsOnTheDisk) {
  disk_.SetError(absl::ResourceExhaustedError("cannot write state.sqlite: disk is full"));
  SubmitRequest request;
  *request.mutable_job() = SmallJob();
  request.set_client_id("drawn");
  EXPECT_THAT(coordinator_->Submit(request, {}).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("disk is full"), HasSubstr("it tries on"))));
  ASSERT_TRUE(Await([&] {
    return Summary().reason() ==
           "waits for the coordinator to write its state: cannot write "
           "state.sqlite: disk is full";
  }));
  EXPECT_EQ(gateways_[0]->jobs(), 0u) << "a shard was told";
  // A life that begins now has never heard of it.
  OpenedJournal opened = disk_.Open();
  EXPECT_EQ(opened.state.snapshot().job_size(), 0);

  disk_.SetError(absl::OkStatus());
  ASSERT_TRUE(Await([&] { return gateways_[0]->jobs() == 1; }));
  ASSERT_OK_AND_ASSIGN(const SubmitReply reply, coordinator_->Submit(request, {}));
  EXPECT_EQ(reply.job(), "small-1");
  EXPECT_EQ(coordinator_->List()->job_size(), 1);
}

TEST_F(CoordinatorJournalTest, AMinimiserBeginsOnceTheJournalKnowsOfItsBatch) {
  constexpr uint64_t kNone = UINT64_MAX;
  std::atomic<bool> blocks{true};
  std::atomic<uint64_t> known{kNone};  // the generation that the disk says is held
  gateways_[0]->on_checkpoint = [&] {
    if (blocks.exchange(false)) {
      disk_.SetError(absl::ResourceExhaustedError("disk is full"));
    }
  };
  gateways_[0]->on_vector = [&] {
    uint64_t none = kNone;
    known.compare_exchange_strong(none, disk_.Open().state.FindJob("small-1")->checkpoint().held());
  };
  Job job = SmallJob();
  job.clear_downpour();
  job.clear_stop();
  job.mutable_sandblaster()->set_max_iterations(1);
  EXPECT_EQ(Submit(job), "small-1");
  ASSERT_TRUE(Await([&] { return absl::StrContains(Summary().reason(), "disk is full"); }));
  disk_.SetError(absl::OkStatus());
  ASSERT_TRUE(Await([&] { return known != kNone; }));
  EXPECT_EQ(known, 1u);
}

TEST_F(CoordinatorJournalTest, ARepeatedSubmissionAsksNobodyForItsData) {
  SubmitRequest request;
  *request.mutable_job() = SmallJob();
  request.set_client_id("drawn");
  ASSERT_OK(coordinator_->Submit(request, {}));
  request.mutable_job()->mutable_train()->mutable_libsvm()->set_file("/removed since");
  ASSERT_OK_AND_ASSIGN(const SubmitReply again, coordinator_->Submit(request, {}));
  EXPECT_EQ(again.job(), "small-1");
  EXPECT_FALSE(again.data_awaited());
  // The coordinator opens no file, and no worker is there to do so.
  request.set_client_id("another");
  ASSERT_OK_AND_ASSIGN(const SubmitReply another, coordinator_->Submit(request, {}));
  EXPECT_EQ(another.job(), "small-2");
  EXPECT_TRUE(another.data_awaited());
}

TEST_F(CoordinatorJournalTest, AReportThatWasNotOnTheDiskIsRepeated) {
  Submit();
  HeartbeatReply beat;
  ASSERT_TRUE(Await([&] { return (beat = Beat()).has_assignment(); }));
  NextWorkRequest request;
  *request.mutable_session() = beat.assignment().session();
  request.set_request(1);
  ASSERT_OK_AND_ASSIGN(const NextWorkReply first, coordinator_->NextWork(request));
  disk_.SetError(absl::UnavailableError("Input/output error"));
  *request.mutable_done() = first.train().block();
  request.set_request(2);
  EXPECT_THAT(coordinator_->NextWork(request).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Input/output error")));
  coordinator_.reset();
  disk_.SetError(absl::OkStatus());
  StartCoordinator(disk_.Open());
  EXPECT_EQ(coordinator_->Describe("latest")->data().blocks_done(), 0u);
  ASSERT_TRUE(Await([&] { return coordinator_->NextWork(request).ok(); }));
  EXPECT_EQ(coordinator_->Describe("latest")->data().blocks_done(),
            static_cast<uint64_t>(first.train().block_size()));
}

TEST_F(CoordinatorJournalTest, TimeBetweenTwoLivesIsNobodys) {
  Submit();
  ASSERT_TRUE(Await([&] { return Beat().has_assignment(); }));
  OpenedJournal opened = disk_.Open();
  // Training began then: at the very end of the last life.
  const auto& job = opened.state.snapshot().job(0);
  ASSERT_TRUE(job.downpour().procedure().has_started_ns());
  const absl::Duration before = opened.at - FromNanos(job.downpour().procedure().started_ns());
  opened.at -= absl::Seconds(1000);  // the machine's clock has run on by so much since
  CoordinatorSnapshot earlier = opened.state.snapshot();
  ProcedureState* const procedure = earlier.mutable_job(0)->mutable_downpour()->mutable_procedure();
  procedure->set_started_ns(procedure->started_ns() - ToNanos(absl::Seconds(1000)));
  opened.state = CoordinatorState(std::move(earlier));
  StartCoordinator(std::move(opened));
  EXPECT_LT(Summary().elapsed_s(), absl::ToDoubleSeconds(before) + 100);
}

}  // namespace
}  // namespace monsoon
