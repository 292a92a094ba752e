// The fixture of the driver's tests: a coordinator with its threads, and two shards that
// hang and fail as they are told.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/server/coordinator.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/revocations.pb.h"

namespace monsoon::testing {

// Generous: the machine may be busy.
constexpr absl::Duration kPatience = absl::Seconds(20);

class FakeGateway : public ShardGateway {
 public:
  // `state_dir` "": in memory only.
  FakeGateway(uint32_t task, std::string state_dir)
      : task_(task), state_dir_(std::move(state_dir)) {}

  absl::StatusOr<ShardStatusReply> GetStatus() override {
    {
      MutexLock lock(&mutex_);
      // As a stopped process does: nothing until the deadline.
      if (hangs_) {
        released_.WaitFor(&mutex_, absl::Seconds(1));
        return absl::DeadlineExceededError("deadline exceeded");
      }
    }
    ShardStatusReply reply;
    reply.set_task(task_);
    reply.set_pid(100 + task_);
    reply.set_state_dir(state_dir_);
    MutexLock lock(&mutex_);
    reply.set_shard_epoch(epoch_);
    reply.set_revoked_version(revoked_.version());
    for (const auto& [job, term] : jobs_) {
      reply.add_job()->set_job(job);
      reply.mutable_job(reply.job_size() - 1)->set_job_term(term);
      reply.mutable_job(reply.job_size() - 1)->set_generation(generation_);
    }
    return reply;
  }
  void NoteRevoked(const Revocations& told) override {
    MutexLock lock(&mutex_);
    ++versions_;
    // As a shard does: what lacks its keys is what it has.
    if (!told.key().empty()) {
      revoked_ = told;
      ++lists_;
    }
  }
  absl::StatusOr<CreateShardJobReply> CreateJob(const CreateShardJobRequest& request) override {
    MutexLock lock(&mutex_);
    jobs_[request.job()] = request.job_term();
    CreateShardJobReply reply;
    reply.set_shard_epoch(epoch_);
    reply.set_from_source(request.has_source());
    return reply;
  }
  absl::StatusOr<RestoreShardJobReply> RestoreJob(const RestoreShardJobRequest& request) override {
    MutexLock lock(&mutex_);
    jobs_[request.create().job()] = request.create().job_term();
    RestoreShardJobReply reply;
    reply.set_shard_epoch(epoch_);
    reply.set_generation(generation_);
    return reply;
  }
  absl::Status DeleteJob(const std::string& job, uint64_t, uint64_t, uint64_t) override {
    MutexLock lock(&mutex_);
    jobs_.erase(job);
    return absl::OkStatus();
  }
  absl::StatusOr<OpenSessionReply> OpenSession(const SessionKey&, uint64_t, uint64_t,
                                               const MemberIdentity&) override {
    MutexLock lock(&mutex_);
    ++open_;
    return OpenSessionReply();
  }
  absl::StatusOr<CloseSessionReply> CloseSession(const SessionKey&, uint64_t, uint64_t) override {
    MutexLock lock(&mutex_);
    --open_;
    return CloseSessionReply();
  }
  absl::Status Checkpoint(const CheckpointRequest& request) override {
    if (on_checkpoint) {
      on_checkpoint();
    }
    MutexLock lock(&mutex_);
    generation_ = request.generation();
    return absl::OkStatus();
  }
  absl::Status ReduceRate(const ReduceRateRequest&) override { return absl::OkStatus(); }
  absl::StatusOr<ChangeSettingsReply> ChangeSettings(const ChangeSettingsRequest&) override {
    return ChangeSettingsReply();
  }
  absl::StatusOr<VectorReply> Vector(const VectorRequest& request) override {
    if (on_vector) {
      on_vector();
    }
    return absl::UnimplementedError("no vectors here");
  }

  // Called by the coordinator's threads; set before they have a job.
  std::function<void()> on_checkpoint;
  std::function<void()> on_vector;

  void Hang(bool hangs) {
    {
      MutexLock lock(&mutex_);
      hangs_ = hangs;
    }
    released_.NotifyAll();
  }
  // As a process that died and was started again.
  void Restart() {
    MutexLock lock(&mutex_);
    ++epoch_;
    jobs_.clear();
  }
  // The list that it was told last; how many were, and how many versions with keys or without.
  Revocations revoked() const {
    MutexLock lock(&mutex_);
    return revoked_;
  }
  int versions() const {
    MutexLock lock(&mutex_);
    return versions_;
  }
  int lists() const {
    MutexLock lock(&mutex_);
    return lists_;
  }
  int open() const {
    MutexLock lock(&mutex_);
    return open_;
  }
  size_t jobs() const {
    MutexLock lock(&mutex_);
    return jobs_.size();
  }

 private:
  const uint32_t task_;
  const std::string state_dir_;
  mutable Mutex mutex_;
  CondVar released_;
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  Revocations revoked_ ABSL_GUARDED_BY(mutex_);
  int versions_ ABSL_GUARDED_BY(mutex_) = 0;
  int lists_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 7;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;  // on the disk
  std::map<std::string, uint64_t> jobs_ ABSL_GUARDED_BY(mutex_);
};

// One coordinator's way to a shard that outlives it.
class ForwardingGateway : public ShardGateway {
 public:
  explicit ForwardingGateway(std::shared_ptr<FakeGateway> shard) : shard_(std::move(shard)) {}
  void NoteRevoked(const Revocations& told) override { shard_->NoteRevoked(told); }
  absl::StatusOr<ShardStatusReply> GetStatus() override { return shard_->GetStatus(); }
  absl::StatusOr<CreateShardJobReply> CreateJob(const CreateShardJobRequest& request) override {
    return shard_->CreateJob(request);
  }
  absl::StatusOr<RestoreShardJobReply> RestoreJob(const RestoreShardJobRequest& request) override {
    return shard_->RestoreJob(request);
  }
  absl::Status DeleteJob(const std::string& job, uint64_t job_term, uint64_t term,
                         uint64_t call) override {
    return shard_->DeleteJob(job, job_term, term, call);
  }
  absl::StatusOr<OpenSessionReply> OpenSession(const SessionKey& key, uint64_t term, uint64_t call,
                                               const MemberIdentity& member) override {
    return shard_->OpenSession(key, term, call, member);
  }
  absl::StatusOr<CloseSessionReply> CloseSession(const SessionKey& key, uint64_t term,
                                                 uint64_t call) override {
    return shard_->CloseSession(key, term, call);
  }
  absl::Status Checkpoint(const CheckpointRequest& request) override {
    return shard_->Checkpoint(request);
  }
  absl::Status ReduceRate(const ReduceRateRequest& request) override {
    return shard_->ReduceRate(request);
  }
  absl::StatusOr<ChangeSettingsReply> ChangeSettings(
      const ChangeSettingsRequest& request) override {
    return shard_->ChangeSettings(request);
  }
  absl::StatusOr<VectorReply> Vector(const VectorRequest& request) override {
    return shard_->Vector(request);
  }

 private:
  const std::shared_ptr<FakeGateway> shard_;
};

class CoordinatorTest : public ::testing::Test {
 protected:
  explicit CoordinatorTest(const std::string& state_dir = "") {
    cluster_.set_name("c");
    cluster_.mutable_coordinator()->set_address("unix:c");
    cluster_.set_heartbeat_ms(50);
    cluster_.set_lost_after_ms(500);
    cluster_.set_ps_lost_after_ms(500);
    cluster_.set_rpc_deadline_ms(4000);
    cluster_.set_worker_wait_ms(60000);
    for (uint32_t i = 0; i < 2; ++i) {
      ParameterServerTask* const ps = cluster_.add_ps();
      ps->set_address(absl::StrCat("unix:ps", i));
      ps->set_memory_limit_mib(16);
      gateways_.push_back(std::make_shared<FakeGateway>(i, state_dir));
    }
    cluster_.add_worker()->set_address("unix:w0");
    StartCoordinator();
  }

  // In place of the one before, which has ended; the shards are the same.
  void StartCoordinator(OpenedJournal opened = OpenedJournal()) {
    coordinator_.reset();
    std::vector<std::unique_ptr<ShardGateway>> gateways;
    for (const std::shared_ptr<FakeGateway>& gateway : gateways_) {
      gateways.push_back(std::make_unique<ForwardingGateway>(gateway));
    }
    coordinator_ = std::make_unique<Coordinator>(cluster_, std::move(gateways), Clock::Real(),
                                                 std::move(opened));
    coordinator_->Begin();
  }

  static Job SmallJob() {
    Job job;
    job.set_name("small");
    job.mutable_model()->set_name("m");
    job.mutable_model()->add_input_shape(8);
    job.mutable_model()->add_layer()->mutable_dense()->set_units(4);
    job.mutable_train()->mutable_synthetic()->set_examples(100);
    job.mutable_train()->mutable_synthetic()->set_classes(4);
    job.set_batch_size(10);
    job.set_block_examples(20);
    job.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(0.1);
    job.mutable_stop()->set_epochs(1);
    return job;
  }
  std::string Submit(const Job& job = SmallJob()) {
    SubmitRequest request;
    *request.mutable_job() = job;
    const absl::StatusOr<SubmitReply> reply = coordinator_->Submit(request, {});
    EXPECT_OK(reply);
    return reply.ok() ? reply->job() : "";
  }
  HeartbeatReply Beat() {
    absl::StatusOr<HeartbeatReply> reply = TryBeat();
    EXPECT_OK(reply);
    return *std::move(reply);
  }
  // Fails between the start of a life and the first answer of a shard.
  absl::StatusOr<HeartbeatReply> TryBeat() {
    HeartbeatRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_cluster("c");
    request.set_incarnation(incarnation_);
    request.set_term(term_);
    request.set_pid(9);
    const absl::StatusOr<HeartbeatReply> reply = coordinator_->Heartbeat(request);
    if (reply.ok()) {
      incarnation_ = reply->rejoin() ? 0 : reply->incarnation();
      term_ = reply->term();
    }
    return reply;
  }
  // Repeats `done` until it holds.
  bool Await(const std::function<bool()>& done) {
    Mutex mutex;
    CondVar pause;
    const absl::Duration deadline = Clock::Real()->Now() + kPatience;
    while (!done()) {
      if (Clock::Real()->Now() > deadline) {
        return false;
      }
      MutexLock lock(&mutex);
      pause.WaitFor(&mutex, absl::Milliseconds(10));
    }
    return true;
  }
  // Joins the job that was submitted, and does its work until it is told to finish.
  void Train(std::set<uint32_t>* blocks) {
    HeartbeatReply beat;
    ASSERT_TRUE(Await([&] { return (beat = Beat()).has_assignment(); }));
    NextWorkRequest request;
    *request.mutable_session() = beat.assignment().session();
    for (bool finished = false; !finished;) {
      request.set_request(request.request() + 1);
      ASSERT_OK_AND_ASSIGN(const NextWorkReply reply, coordinator_->NextWork(request));
      *request.mutable_done() = reply.train().block();
      for (const BlockId& block : reply.train().block()) {
        blocks->insert(block.block());
      }
      finished = reply.has_finish();
      ASSERT_LT(request.request(), 100u);
    }
  }
  JobSummary Summary() { return coordinator_->Describe("latest")->summary(); }

  Cluster cluster_;
  std::vector<std::shared_ptr<FakeGateway>> gateways_;
  std::unique_ptr<Coordinator> coordinator_;
  uint64_t incarnation_ = 0;
  uint64_t term_ = 0;
};

}  // namespace monsoon::testing
