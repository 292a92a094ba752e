// CoordinatorSimulation: a seeded random schedule over the whole core: workers join, stop, wake
// up, crash and report late or twice, commands to shards are lost, shards that keep state
// die and come back, the coordinator dies and loses what it had told nobody, time passes in
// uneven steps. Whatever happens, a job that keeps one worker
// ends, every block was done, and no block is ever with two open sessions. The same of
// joined jobs, whose programs enter again and again, and write their parameters first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/core_harness.h"
#include "coordinator/downpour/block_dispenser.h"
#include "coordinator/shards/shard_command.h"
#include "gtest/gtest.h"

namespace monsoon::testing {

struct SimulatedWorker {
  bool alive = true;    // a process that is running
  double wakes_at = 0;  // stopped until then, in seconds
  std::vector<BlockRef> held;
  NextWorkRequest last;  // repeated now and then
  uint64_t steps = 0;
  bool left = false;  // was told to finish
};

class CoordinatorSimulation {
 public:
  // A fourth of the jobs are joined ones, whose workers are programs that enter them.
  explicit CoordinatorSimulation(uint32_t seed)
      : seed_(seed), joined_(seed % 4 == 3), random_(seed), h_(kShards, joined_ ? 0 : kWorkers) {
    JobPlan plan = h_.Plan(0.25 * static_cast<double>(1 + random_() % 16));
    plan.examples = 20 + random_() % 400;
    if (random_() % 2 == 0) {
      plan.job.mutable_test();
      plan.job.mutable_evaluation()->set_every_epochs(random_() % 2);
    }
    if (random_() % 3 == 0) {
      plan.job.mutable_downpour()->mutable_warmstart()->set_steps(random_() % 20);
    }
    if (random_() % 4 == 0) {
      plan.job.mutable_stop()->set_seconds(5 + random_() % 30);
      timed_ = true;
    }
    per_epoch_ = (plan.examples + 19) / 20;
    const auto granted = static_cast<uint64_t>(
        std::ceil(plan.job.stop().epochs() * static_cast<double>(plan.examples) - 1e-6));
    total_ = granted / plan.examples * per_epoch_ + (granted % plan.examples + 19) / 20;
    // Half of the clusters keep state.
    if (random_() % 2 == 0) {
      h_.KeepState();
      plan.job.mutable_checkpoint()->set_every_seconds(0.1 * (1 + random_() % 30));
      plan.job.mutable_checkpoint()->set_every_pushes(random_() % 20);
    }
    worker_.resize(kWorkers);
    if (!joined_) {
      h_.Submit(plan);
      return;
    }
    ModelTensor* const tensor = plan.job.mutable_model()->add_tensor();
    tensor->set_name("w");
    tensor->add_shape(64);
    plan.job.mutable_train()->mutable_joiners()->set_examples(plan.examples);
    entered_ = plan;
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      h_.guest_[worker] = 9000 + worker;
      h_.enters_[worker] = "j-1";
    }
    Enter(0);
  }

  void Run() {
    for (int step = 0; step < 60000; ++step) {
      const JobState state = h_.State();
      if (state == SUCCEEDED) {
        CheckEnd();
        return;
      }
      if (state == FAILED && AllWasLost()) {
        return;
      }
      ASSERT_NE(state, FAILED) << "seed " << seed_ << ": " << h_.Reason();
      Step();
      if (::testing::Test::HasFailure()) {
        FAIL() << "seed " << seed_ << " step " << step;
      }
    }
    const JobDescription description = h_.Describe();
    FAIL() << "seed " << seed_ << ": the job does not end: " << description.ShortDebugString();
  }

  CoreHarness& harness() { return h_; }
  // Slices that shards got back after a death.
  uint64_t restores() { return h_.Describe().counts().restores(); }
  uint64_t coordinator_deaths() const { return coordinator_deaths_; }

 private:
  static constexpr uint32_t kWorkers = 4;
  static constexpr uint32_t kShards = 2;

  // Asks for its part; a program that is to write has done so the next time, or later.
  void Enter(uint32_t program) {
    EnterRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_guest(9000 + program);
    request.set_pid(200 + program);
    request.set_sealed_by(sealed_[program]);
    *request.mutable_job() = entered_.job;
    const absl::StatusOr<EnterReply> reply = h_.core().Enter(request, entered_, h_.now());
    ASSERT_OK(reply);
    ASSERT_EQ(reply->job(), "j-1");
    h_.job_term_ = reply->job_term();
    if (reply->part() == EnterReply::INITIALIZE) {
      // Each number has one writer, and none comes back.
      EXPECT_GE(reply->writer(), newest_writer_);
      EXPECT_TRUE(reply->writer() > newest_writer_ || program == writes_);
      newest_writer_ = reply->writer();
      writes_ = program;
      sealed_[program] = random_() % 2 == 0 ? newest_writer_ : 0;
    }
  }

  double Seconds() const { return absl::ToDoubleSeconds(h_.now_); }
  bool Runs(uint32_t worker) const {
    return worker_[worker].alive && worker_[worker].wakes_at <= Seconds();
  }

  void Step() {
    h_.now_ += absl::Milliseconds(random_() % 40);
    if (Seconds() >= next_beat_) {
      next_beat_ = Seconds() + 0.5;
      h_.Poll();
      for (uint32_t worker = 0; worker < kWorkers; ++worker) {
        if (Runs(worker)) {
          Beat(worker);
        }
      }
    }
    h_.core().Tick(h_.now());
    if (h_.core().wants_poll()) {
      h_.Poll();
    }
    // The process that runs the programs may stop, so that another one gets its part.
    if (joined_ && random_() % 8 == 0 && h_.core().state().FindJob("j-1")->stage() < JOB_ENDING) {
      const uint32_t program = random_() % kWorkers;
      if (Runs(program)) {
        Enter(program);
      }
    }
    CarryOut();
    UseDisks();
    KillShards();
    if (random_() % 200 == 0) {
      const size_t least = h_.UpdatesThatMatter();
      RestartCoordinator(least + random_() % (h_.updates_.size() - least + 1));
    }
    const uint32_t worker = random_() % kWorkers;
    if (random_() % 150 == 0) {
      Disturb(worker);
    } else if (Runs(worker) && h_.session_.contains(worker)) {
      Work(worker);
    }
  }

  // Some commands get lost, before or after the shard has carried them out.
  void CarryOut() {
    for (const ShardCommand& command : h_.core().TakeCommands(h_.now())) {
      const uint32_t fate = random_() % 10;
      ShardAnswer answer{absl::UnavailableError("lost")};
      if (command.kind == ShardCommand::Kind::kCheckpoint) {
        CheckContext(command.checkpoint.context());
      }
      if (fate > 0) {
        answer = h_.Answer(command);
      }
      if (fate == 1) {
        answer = {absl::DeadlineExceededError("answer lost")};
      }
      h_.core().OnCommand(command, answer, h_.now());
    }
  }

  // Disks are slow at times, and full at times; in the end there is room.
  void UseDisks() {
    if (random_() % 200 == 0) {
      FakeShard& shard = h_.shard(random_() % kShards);
      shard.disk_is_slow = random_() % 2 == 0;
      shard.disk_error = random_() % 3 == 0 ? "No space left on device" : "";
    }
    if (random_() % 20 == 0) {
      h_.shard(random_() % kShards).Write();
    }
    if (random_() % 300 == 0 && h_.shard(0).state_dir != "" &&
        h_.Describe().progress().epoch() > 0) {
      const absl::StatusOr<CheckpointOrder> order = h_.core().Checkpoint("j-1", h_.now());
      if (order.ok()) {
        asked_for_ = std::max(asked_for_, order->generation());
      }
    }
  }

  // Shards that keep state die, and are started again at once or after a while.
  void KillShards() {
    const uint32_t index = random_() % kShards;
    FakeShard& shard = h_.shard(index);
    if (shard.state_dir.empty()) {
      return;
    }
    if (shard.alive && random_() % 150 == 0) {
      shard.alive = false;
      starts_at_[index] = Seconds() + static_cast<double>(random_() % 3) * 4;
    }
    if (!shard.alive && Seconds() >= starts_at_[index]) {
      h_.Restart(index);
    }
  }

  void RestartCoordinator(size_t kept) {
    h_.RestartCoordinator(kept);
    ++coordinator_deaths_;
  }

  // A shard died at the job's end, before the first generation, and the workers had died
  // before: nobody had anything to restore it from.
  bool AllWasLost() {
    const DurableJob& job = *h_.core().state().FindJob("j-1");
    const bool trained = job.downpour().procedure().phase() == ProcedureState::DONE;
    // What programs wrote nobody can make again, before the first generation.
    return (trained || joined_) && job.checkpoint().held() == 0 && job.session().empty() &&
           !h_.shard(0).state_dir.empty();
  }

  // What a checkpoint says is done was reported by a worker, so all shards have it.
  void CheckContext(const CheckpointContext& context) {
    const DownpourProgress& progress = context.downpour();
    uint64_t blocks = per_epoch_ * progress.epochs_done();
    for (const EpochCursor& epoch : progress.epoch()) {
      for (const EpochCursor::Run& run : epoch.done()) {
        for (uint32_t block = run.first(); block < run.end(); ++block) {
          ++blocks;
          EXPECT_GE((done_[BlockRef{epoch.epoch(), block}]), 1) << epoch.epoch() << "," << block;
        }
      }
    }
    EXPECT_EQ(progress.blocks_done(), blocks);
    if (context.final()) {
      EXPECT_TRUE(timed_ || blocks == total_) << blocks << " of " << total_;
      EXPECT_TRUE(h_.shard(0).open.empty() && h_.shard(1).open.empty());
    }
  }

  void Beat(uint32_t worker) {
    if (h_.Beat(worker).rejoin()) {
      h_.session_.erase(worker);
      Forget(worker);
    }
  }

  void Forget(uint32_t worker) {
    worker_[worker] = SimulatedWorker();
    h_.held_[worker].clear();
  }

  void Disturb(uint32_t worker) {
    SimulatedWorker& w = worker_[worker];
    switch (random_() % 4) {
      case 0:  // Crashes; its supervisor starts it again.
        if (worker != 0) {
          Forget(worker);
          h_.incarnation_[worker] = 0;
          w.wakes_at = Seconds() + static_cast<double>(random_() % 5);
          h_.session_.erase(worker);
        }
        break;
      case 1:  // SIGSTOP for up to 8 s: lost at some of them.
        if (worker != 0) {
          w.wakes_at = Seconds() + static_cast<double>(random_() % 8);
        }
        break;
      case 2:
        if (Runs(worker) && h_.session_.contains(worker) && failures_[worker] == 0) {
          ++failures_[worker];
          (void)h_.Fail(worker, ReportFailureRequest::REPLICA, "trouble");
        }
        break;
      default:  // The last answer was lost.
        if (Runs(worker) && w.last.request() != 0) {
          Send(worker, w.last);
        }
        break;
    }
  }

  void Work(uint32_t worker) {
    SimulatedWorker& w = worker_[worker];
    if (w.last.request() != 0 &&
        w.last.session().SerializeAsString() != h_.session_[worker].SerializeAsString()) {
      Forget(worker);
    }
    if (w.left) {
      return;
    }
    NextWorkRequest request;
    *request.mutable_session() = h_.session_[worker];
    request.set_request(w.last.request() + 1);
    // Acknowledged so far: a random first part of what it holds.
    const size_t count =
        w.held.empty() || flush_[worker] ? w.held.size() : random_() % (w.held.size() + 1);
    for (size_t i = 0; i < count; ++i) {
      BlockId* const id = request.add_done();
      id->set_epoch(w.held[i].epoch);
      id->set_block(w.held[i].block);
    }
    w.steps += 4 * count;
    request.mutable_stats()->set_steps(w.steps);
    w.last = request;
    std::vector<BlockRef> reported(w.held.begin(), w.held.begin() + count);
    w.held.erase(w.held.begin(), w.held.begin() + count);
    if (Send(worker, request)) {
      for (const BlockRef& block : reported) {
        ++done_[block];
        for (uint32_t shard = 0; shard < kShards; ++shard) {
          ++h_.shard(shard).version;
        }
      }
      if (random_() % 8 == 0) {
        Send(worker, request);
      }
    }
  }

  // False: the session is closed.
  bool Send(uint32_t worker, const NextWorkRequest& request) {
    SimulatedWorker& w = worker_[worker];
    absl::StatusOr<NextWorkReply> reply = absl::UnavailableError("");
    while (reply.status().code() == absl::StatusCode::kUnavailable) {
      const size_t before = h_.UpdatesThatMatter();
      reply = h_.core().NextWork(request, h_.now());
      if (random_() % 100 == 0) {
        // It dies before the answer has left; of a call all is on the disk, or nothing.
        RestartCoordinator(random_() % 2 == 0 ? before : h_.updates_.size());
        reply = absl::UnavailableError("no answer; the worker asks again");
      }
    }
    if (!reply.ok()) {
      EXPECT_TRUE(absl::StrContains(reply.status().message(), "not open")) << reply.status();
      return false;
    }
    flush_[worker] = reply->has_flush();
    w.left |= reply->has_finish();
    if (reply->has_evaluate() && random_() % 4 != 0) {
      (void)h_.ReportEvaluation(worker, reply->evaluate().evaluation(), 90);
    }
    for (const BlockId& id : reply->train().block()) {
      const BlockRef block{id.epoch(), id.block()};
      if (std::find(w.held.begin(), w.held.end(), block) == w.held.end()) {
        CheckAlone(worker, block);
        w.held.push_back(block);
      }
    }
    return true;
  }

  // No other session that some shard still has open holds the block.
  void CheckAlone(uint32_t worker, const BlockRef& block) {
    for (uint32_t other = 0; other < kWorkers; ++other) {
      const std::string session =
          absl::StrCat("j-1/", other, "#", h_.session_[other].incarnation());
      const bool open = h_.shard(0).open.contains(session) || h_.shard(1).open.contains(session);
      const auto& held = worker_[other].held;
      if (other != worker && open) {
        EXPECT_EQ(std::find(held.begin(), held.end(), block), held.end())
            << "worker/" << other << " and worker/" << worker;
      }
    }
  }

  void CheckEnd() {
    EXPECT_TRUE(h_.shard(0).open.empty());
    EXPECT_TRUE(h_.shard(1).open.empty());
    const JobDescription description = h_.Describe();
    if (!timed_) {
      EXPECT_EQ(description.data().blocks_done(), total_) << "seed " << seed_;
      for (uint64_t i = 0; i < total_; ++i) {
        const BlockRef block{static_cast<uint32_t>(i / per_epoch_),
                             static_cast<uint32_t>(i % per_epoch_)};
        EXPECT_GE(done_[block], 1)
            << "seed " << seed_ << " block " << block.epoch << "," << block.block;
      }
    }
    CheckGenerations(description);
    const bool has_test = description.evaluation_size() > 0;
    EXPECT_EQ(has_test, description.has_final_test_accuracy());
  }

  void CheckGenerations(const JobDescription& description) {
    const uint64_t held = description.durability().generation();
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      if (h_.shard(shard).state_dir.empty()) {
        EXPECT_EQ(h_.shard(shard).orders, 0);
        EXPECT_EQ(held, 0u);
        continue;
      }
      EXPECT_GE(held, 1u);
      EXPECT_EQ(h_.shard(shard).generation["j-1"], held);
      EXPECT_TRUE(h_.core().state().FindJob("j-1")->checkpoint().context().final());
      EXPECT_GE(held, asked_for_);
    }
  }

  const uint32_t seed_;
  const bool joined_;
  std::mt19937 random_;
  CoreHarness h_;
  std::vector<SimulatedWorker> worker_;
  std::map<uint32_t, double> starts_at_;  // shards that are dead
  std::map<uint32_t, bool> flush_;
  std::map<uint32_t, int> failures_;
  std::map<BlockRef, int> done_;
  uint64_t per_epoch_ = 0;
  uint64_t total_ = 0;
  uint64_t asked_for_ = 0;  // the newest generation
  JobPlan entered_;
  std::map<uint32_t, uint64_t> sealed_;  // by program: as which writer
  uint64_t newest_writer_ = 0;
  uint32_t writes_ = 0;
  bool timed_ = false;
  uint64_t coordinator_deaths_ = 0;
  double next_beat_ = 0;
};

}  // namespace monsoon::testing
