// CoreHarness: a CoordinatorCore with scripted shards, workers and time, for
// tests. Shards carry out commands at Settle(); workers are driven call by call.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/fake_shard.h"
#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon::testing {

class CoreHarness {
 public:
  explicit CoreHarness(uint32_t shards, uint32_t workers, uint32_t worker_wait_ms = 60000)
      : shards_(shards) {
    cluster_.set_name("c");
    cluster_.mutable_coordinator()->set_address("unix:c");
    for (uint32_t i = 0; i < shards; ++i) {
      cluster_.add_ps()->set_address(absl::StrCat("unix:ps", i));
      cluster_.mutable_ps(static_cast<int>(i))->set_memory_limit_mib(1);
      shards_[i].pid = 100 + i;
    }
    for (uint32_t i = 0; i < workers; ++i) {
      cluster_.add_worker()->set_address(absl::StrCat("unix:w", i));
    }
    cluster_.set_heartbeat_ms(500);
    cluster_.set_lost_after_ms(3000);
    cluster_.set_ps_lost_after_ms(30000);
    cluster_.set_rpc_deadline_ms(10000);
    cluster_.set_connections(3);
    cluster_.set_worker_wait_ms(worker_wait_ms);
    RestartCoordinator(0);
  }

  // Every schedule's updates, replayed, must make the same durable state.
  ~CoreHarness() { ExpectReplay(updates_, core_->state()); }

  // The coordinator dies, and another one begins with the first `kept` updates of all
  // lives: those that were on the disk.
  void RestartCoordinator(size_t kept) {
    updates_.resize(kept);
    CoordinatorState state;
    for (const StateUpdate& update : updates_) {
      EXPECT_OK(state.Apply(update));
    }
    core_ = std::make_unique<CoordinatorCore>(
        cluster_, ++coordinator_pid_, now(),
        [this](const StateUpdate& update) { updates_.push_back(update); }, std::move(state));
  }
  // The same, with all that something rests on; what may lag is lost.
  void RestartCoordinator() { RestartCoordinator(UpdatesThatMatter()); }
  // How many of the updates must be on the disk, since what followed from them was told.
  size_t UpdatesThatMatter() const {
    size_t kept = updates_.size();
    while (kept > 0 && MayLag(updates_[kept - 1])) {
      --kept;
    }
    return kept;
  }

  // The same with another cluster file, that lets guests in or not.
  void RestartWith(bool open) {
    cluster_.set_open(open);
    RestartCoordinator();
  }

  CoordinatorCore& core() { return *core_; }
  FakeShard& shard(uint32_t index) { return shards_[index]; }
  Moment now() const { return {now_, absl::ToInt64Milliseconds(now_ + wall_ahead_)}; }
  // Somebody sets the wall clock.
  void SetWallClockAhead(absl::Duration ahead) { wall_ahead_ = ahead; }

  // 70 samples in 4 blocks of 20, batches of 5.
  static JobPlan Plan(double epochs, uint32_t shards, uint32_t replicas) {
    JobPlan plan;
    plan.job.set_name("j");
    plan.job.mutable_downpour();
    plan.job.set_batch_size(5);
    plan.job.set_block_examples(20);
    plan.job.mutable_stop()->set_epochs(epochs);
    plan.job.mutable_checkpoint()->set_every_seconds(10);
    plan.examples = 70;
    plan.replicas = replicas;
    plan.max_stripe_bytes = 1024;
    plan.shard_bytes.assign(shards, 300 * 1024);
    return plan;
  }
  JobPlan Plan(double epochs) const {
    return Plan(epochs, static_cast<uint32_t>(shards_.size()),
                static_cast<uint32_t>(cluster_.worker_size()));
  }
  std::string Submit(const JobPlan& plan, bool init = false,
                     const std::optional<ResumePoint>& resume = std::nullopt) {
    absl::StatusOr<SubmitReply> reply =
        core_->Submit(plan, {.init = init, .resume = resume}, now());
    EXPECT_OK(reply);
    job_term_ = core_->state().snapshot().term();
    return reply.ok() ? reply->job() : "";
  }

  // Polls every shard, in one round.
  void Poll() {
    const uint64_t round = core_->BeginPoll();
    for (uint32_t i = 0; i < shards_.size(); ++i) {
      core_->OnPoll(i, round, Status(i), now());
    }
  }
  // What a shard that cannot be reached comes to.
  static absl::Status Unreached(const FakeShard& shard) {
    if (shard.silent) {
      return absl::DeadlineExceededError("no answer");
    }
    absl::Status refused = absl::UnavailableError("connection refused");
    MarkNobodyListens(&refused);
    return refused;
  }
  absl::StatusOr<ShardStatusReply> Status(uint32_t index) const {
    const FakeShard& shard = shards_[index];
    if (!shard.alive || shard.silent) {
      return Unreached(shard);
    }
    ShardStatusReply reply;
    reply.set_cluster("c");
    reply.set_task(index);
    reply.set_pid(shard.pid);
    reply.set_shard_epoch(shard.epoch);
    reply.set_term(shard.term);
    reply.set_state_dir(shard.state_dir);
    *reply.mutable_journal() = shard.journal;
    reply.set_trouble(shard.trouble);
    for (const auto& [key, bytes] : shard.orphans) {
      ShardJobStatus* const status = reply.add_job();
      status->set_job(key.first);
      status->set_job_term(key.second);
      status->set_memory_bytes(bytes);
    }
    for (const auto& [job, written] : shard.jobs) {
      ShardJobStatus* const status = reply.add_job();
      status->set_job(job);
      status->set_job_term(job_term_);
      status->set_stripes(2);
      status->set_version_min(shard.version);
      status->set_version_max(shard.version);
      status->set_applied(2 * shard.version);
      if (const auto reduced = shard.reductions.find(job); reduced != shard.reductions.end()) {
        status->set_rate_reductions(reduced->second);
      }
      shard.AddSettings(job, status);
      if (const auto held = shard.generation.find(job); held != shard.generation.end()) {
        status->set_generation(held->second);
        status->set_disk_bytes(1000 * held->second);
      }
      if (const auto error = shard.checkpoint_error.find(job);
          error != shard.checkpoint_error.end()) {
        status->set_checkpoint_error(error->second);
      }
    }
    return reply;
  }
  void Restart(uint32_t index) { shards_[index].Restart(); }
  // All shards keep state from now on.
  void KeepState() {
    for (size_t i = 0; i < shards_.size(); ++i) {
      shards_[i].state_dir = absl::StrCat("/state/", i);
    }
  }
  // What becomes of it: the term and the other jobs are those of whoever repeats it.
  static std::string PartOf(CheckpointRequest request) {
    request.clear_term();
    request.clear_known_jobs();
    return request.SerializeAsString();
  }
  absl::Status Order(const CheckpointRequest& request, FakeShard* shard) {
    if (shard->state_dir.empty()) {
      return absl::FailedPreconditionError("no state folder");
    }
    ++shard->orders;
    CheckpointRequest& known = shard->ordered[request.job()];
    EXPECT_GE(request.generation(), std::max<uint64_t>(known.generation(), 1));
    EXPECT_TRUE(request.context().has_job());
    EXPECT_FALSE(request.context().reason().empty());
    if (request.generation() == known.generation()) {
      EXPECT_EQ(PartOf(request), PartOf(known)) << "another order";
    } else {
      // The one before is on the disk of every shard.
      for (const FakeShard& other : shards_) {
        const auto before = other.ordered.find(request.job());
        const auto held = other.generation.find(request.job());
        const uint64_t on_disk = held == other.generation.end() ? 0 : held->second;
        EXPECT_TRUE(before == other.ordered.end() || before->second.generation() <= on_disk ||
                    before->second.generation() == request.generation())
            << "two generations are under way";
      }
    }
    known = request;
    if (!shard->disk_is_slow) {
      shard->Write();
    }
    return absl::OkStatus();
  }

  // Carries out one command as its shard does.
  absl::Status Execute(const ShardCommand& command) {
    FakeShard& shard = shards_[command.shard];
    if (!shard.alive || shard.silent) {
      return Unreached(shard);
    }
    if (command.term < shard.term) {
      return absl::FailedPreconditionError("an earlier coordinator's term");
    }
    shard.term = command.term;
    if (shard.orphans.erase({command.job, command.job_term}) > 0) {
      EXPECT_EQ(command.kind, ShardCommand::Kind::kDeleteJob);
      return absl::OkStatus();
    }
    const std::string session = absl::StrCat(command.session.job(), "/", command.session.worker(),
                                             "#", command.session.incarnation());
    const bool makes = command.kind == ShardCommand::Kind::kCreateJob ||
                       command.kind == ShardCommand::Kind::kDeleteJob ||
                       command.kind == ShardCommand::Kind::kRestoreJob;
    if (!makes && !shard.jobs.contains(command.job) && !shard.state_dir.empty()) {
      ++shard.strange;
      return absl::NotFoundError("no job " + command.job);
    }
    switch (command.kind) {
      case ShardCommand::Kind::kRestoreJob:
        EXPECT_EQ(command.restore.create().job_term(), job_term_);
        return shard.Restore(command.restore);
      case ShardCommand::Kind::kCreateJob:
        return shard.Create(command.create);
      case ShardCommand::Kind::kDeleteJob:
        shard.jobs.erase(command.job);
        return absl::OkStatus();
      case ShardCommand::Kind::kOpenSession:
        EXPECT_TRUE(shard.jobs.contains(command.job));
        shard.history.push_back("open " + session);
        shard.open.insert(session);
        shard.owner[session] = command.member;
        return absl::OkStatus();
      case ShardCommand::Kind::kCloseSession:
        shard.history.push_back("close " + session);
        shard.open.erase(session);
        return absl::OkStatus();
      case ShardCommand::Kind::kCheckpoint:
        EXPECT_TRUE(shard.jobs.contains(command.job));
        return Order(command.checkpoint, &shard);
      case ShardCommand::Kind::kReduceRate:
        EXPECT_TRUE(shard.jobs.contains(command.job));
        ++shard.rate_orders;
        if (shard.rate_error.ok()) {
          shard.reductions[command.job] =
              std::max(shard.reductions[command.job], command.reduce.reductions());
        }
        return shard.rate_error;
      case ShardCommand::Kind::kAdopt:
        EXPECT_TRUE(shard.jobs.contains(command.job));
        return absl::OkStatus();
      case ShardCommand::Kind::kChangeSettings:
        return shard.Change(command.settings);
    }
    return absl::InternalError("unknown command");
  }
  // Carries out one command; what the shard says to it.
  ShardAnswer Answer(const ShardCommand& command) {
    ShardAnswer answer{Execute(command), shards_[command.shard].epoch};
    FakeShard& shard = shards_[command.shard];
    answer.version = shard.told_version;
    if (command.kind == ShardCommand::Kind::kRestoreJob && answer.status.ok()) {
      answer.restored = shard.restored;
    }
    const std::string session = absl::StrCat(command.session.job(), "/", command.session.worker(),
                                             "#", command.session.incarnation());
    if (command.kind == ShardCommand::Kind::kCloseSession && answer.status.ok() &&
        shard.lost_at_close.contains(session)) {
      *answer.closed.mutable_lost() = shard.lost_at_close[session];
    }
    if (command.kind == ShardCommand::Kind::kCloseSession && shard.closes_unheard) {
      return {.status = absl::DeadlineExceededError("no answer")};
    }
    return answer;
  }
  // Carries out commands until there are none.
  void Settle() {
    for (int i = 0; i < 100; ++i) {
      const std::vector<ShardCommand> commands = core_->TakeCommands(now());
      if (commands.empty()) {
        return;
      }
      for (const ShardCommand& command : commands) {
        core_->OnCommand(command, Answer(command), now());
      }
    }
    ADD_FAILURE() << "commands do not end";
  }

  // Lets time pass in ticks, with polls and commands; workers in `beating` send
  // heartbeats, as a live process does.
  void Pass(absl::Duration time, const std::set<uint32_t>& beating = {}) {
    for (absl::Duration end = now_ + time; now_ < end;) {
      now_ += absl::Milliseconds(100);
      if (absl::ToInt64Milliseconds(now_) % 500 == 0) {
        Poll();
        for (const uint32_t worker : beating) {
          Beat(worker);
        }
      }
      core_->Tick(now());
      Settle();
    }
  }

  HeartbeatRequest HeartbeatOf(uint32_t worker) {
    HeartbeatRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_cluster("c");
    request.set_task(worker);
    request.set_incarnation(incarnation_[worker]);
    request.set_term(term_[worker]);
    request.set_pid(200 + worker);
    if (guest_.contains(worker)) {
      request.set_task(0);
      request.set_guest(guest_[worker]);
      request.set_host("attic");
    }
    if (enters_.contains(worker)) {
      request.set_enters_job(enters_[worker]);
      request.set_enters_job_term(job_term_);
    }
    return request;
  }
  // With `waits`, in its session and waiting for its pushes to become durable.
  HeartbeatReply Beat(uint32_t worker, const ReplicaStats* stats = nullptr, bool waits = false) {
    HeartbeatRequest request = HeartbeatOf(worker);
    if (stats != nullptr) {
      *request.mutable_session() = session_[worker];
      *request.mutable_stats() = *stats;
    }
    if (waits) {
      *request.mutable_session() = session_[worker];
      request.set_wants_checkpoint(true);
      request.set_stands_still(stands_still_);
    }
    if (silent_shard_.contains(worker)) {
      *request.mutable_session() = session_[worker];
      request.set_silent_shard(silent_shard_[worker]);
    }
    absl::StatusOr<HeartbeatReply> reply = core_->Heartbeat(request, now(), member_[worker]);
    EXPECT_OK(reply);
    EXPECT_TRUE(reply->rejoin() || reply->job_ended() != 0 || reply->task() == worker)
        << reply->task();
    incarnation_[worker] = reply->rejoin() ? 0 : reply->incarnation();
    term_[worker] = reply->term();
    if (reply->has_assignment() &&
        reply->assignment().session().SerializeAsString() != session_[worker].SerializeAsString()) {
      session_[worker] = reply->assignment().session();
      request_[worker] = 0;
      held_[worker].clear();
    }
    return *reply;
  }
  // Says goodbye.
  void Leave(uint32_t worker) {
    HeartbeatRequest goodbye = HeartbeatOf(worker);
    goodbye.set_leaving(true);
    EXPECT_OK(core_->Heartbeat(goodbye, now(), member_[worker]));
    incarnation_[worker] = 0;
  }
  // Joins and waits for the assignment.
  void Join(uint32_t worker) {
    Beat(worker);
    Settle();
    EXPECT_TRUE(Beat(worker).has_assignment()) << worker;
  }

  // The session says that it ends, in which generations its pushes are, by shard, and how many.
  void TellDurable(uint32_t worker, const std::vector<uint64_t>& generations, uint64_t pushes = 0) {
    NextWorkRequest request;
    *request.mutable_session() = session_[worker];
    request.set_request(++request_[worker]);
    request.mutable_durable_in()->Assign(generations.begin(), generations.end());
    request.set_pushes(pushes);
    EXPECT_OK(core_->NextWork(request, now()));
  }
  // Asks for work and reports what was given before as done.
  absl::StatusOr<NextWorkReply> Ask(uint32_t worker, const ReplicaStats& stats = {}) {
    NextWorkRequest request;
    *request.mutable_session() = session_[worker];
    request.set_request(++request_[worker]);
    for (const BlockId& block : held_[worker]) {
      *request.add_done() = block;
    }
    *request.mutable_stats() = stats;
    if (const auto ready = ready_.find(worker); ready != ready_.end()) {
      request.mutable_ready_epoch()->Assign(ready->second.begin(), ready->second.end());
    } else if (const DurableJob* const job = core_->state().FindJob(session_[worker].job())) {
      *request.mutable_ready_epoch() = job->shard_epoch();
    }
    absl::StatusOr<NextWorkReply> reply = core_->NextWork(request, now());
    if (reply.ok()) {
      for (const BlockId& block : held_[worker]) {
        ++done_[{block.epoch(), block.block()}];
      }
      held_[worker].assign(reply->train().block().begin(), reply->train().block().end());
    }
    return reply;
  }
  absl::Status ReportEvaluation(uint32_t worker, uint64_t evaluation, uint64_t correct) {
    ReportEvaluationRequest request;
    *request.mutable_session() = session_[worker];
    request.set_evaluation(evaluation);
    request.set_examples(100);
    request.set_correct(correct);
    request.set_loss_sum(50);
    return core_->ReportEvaluation(request, now());
  }
  absl::Status Fail(uint32_t worker, ReportFailureRequest::Kind kind, const std::string& text) {
    ReportFailureRequest request;
    *request.mutable_session() = session_[worker];
    request.set_kind(kind);
    request.set_message(text);
    return core_->ReportFailure(request, now()).status();
  }
  // Trains until the worker is told to finish.
  void TrainToTheEnd(uint32_t worker) {
    for (int i = 0; i < 200; ++i) {
      const absl::StatusOr<NextWorkReply> reply = Ask(worker);
      ASSERT_OK(reply);
      if (reply->has_evaluate()) {
        ASSERT_OK(ReportEvaluation(worker, reply->evaluate().evaluation(), 90));
      }
      if (reply->has_finish()) {
        return;
      }
    }
    ADD_FAILURE() << "worker/" << worker << " is never told to finish";
  }

  JobDescription Describe(const std::string& job = "latest") {
    absl::StatusOr<JobDescription> description = core_->Describe(job, now());
    EXPECT_OK(description);
    return *description;
  }
  JobState State(const std::string& job = "latest") {
    JobState state = JOB_STATE_UNSPECIFIED;
    const ListReply list = core_->List(now());
    for (const JobSummary& summary : list.job()) {
      state = job == "latest" || job == summary.job() ? summary.state() : state;
    }
    return state;
  }
  std::string Reason(const std::string& job = "latest") { return Describe(job).summary().reason(); }
  std::vector<std::string> Events(const std::string& job = "latest") {
    std::vector<std::string> kinds;
    const JobDescription description = Describe(job);
    for (const auto& event : description.event()) {
      kinds.push_back(absl::StrCat(event.kind(), event.task().empty() ? "" : " ", event.task()));
    }
    return kinds;
  }

  Cluster cluster_;
  absl::Duration wall_ahead_;
  absl::Duration now_ = absl::Seconds(1000);
  std::vector<FakeShard> shards_;
  std::vector<StateUpdate> updates_;
  std::unique_ptr<CoordinatorCore> core_;
  uint32_t coordinator_pid_ = 0;
  uint64_t job_term_ = 0;  // of the jobs submitted last
  // By the number that they get: workers that the cluster file does not list.
  std::map<uint32_t, uint64_t> guest_;
  std::map<uint32_t, std::string> enters_;     // the job that such a one is there for
  bool stands_still_ = false;                  // a worker that waits does nothing else
  std::map<uint32_t, uint32_t> silent_shard_;  // that does not answer the worker
  std::map<uint32_t, uint64_t> incarnation_;
  std::map<uint32_t, uint64_t> term_;
  std::map<uint32_t, SessionKey> session_;
  std::map<uint32_t, MemberIdentity> member_;  // as whom it beats; none: it proves nothing
  std::map<uint32_t, uint64_t> request_;
  std::map<uint32_t, std::vector<BlockId>> held_;
  // The lives of shards that a worker says have all its pushes; else the present ones do.
  std::map<uint32_t, std::vector<uint64_t>> ready_;
  std::map<std::pair<uint32_t, uint32_t>, int> done_;
};

}  // namespace monsoon::testing
