#include "tests/simulation/simulated_coordinator.h"

#include <algorithm>
#include <span>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "coordinator/shards/shard_gateway.h"
#include "coordinator/state/coordinator_state.h"
#include "gtest/gtest.h"
#include "tests/simulation/simulated_minimizer.h"
#include "tests/simulation/simulated_ps.h"

namespace monsoon::simulation {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(50);
constexpr absl::Duration kMostLag = absl::Milliseconds(100);
constexpr absl::Duration kStatusDeadline = absl::Milliseconds(200);
constexpr absl::Duration kCommandDeadline = absl::Milliseconds(600);

}  // namespace

void SimulatedCoordinator::Start() {
  process.alive = true;
  process.wakes_at = absl::ZeroDuration();
  ++process.life;
  CoordinatorState state;
  for (const StateUpdate& update : updates_) {
    ASSERT_OK(state.Apply(update));
  }
  durable_ = ended_ = updates_.size();
  call_matters_ = commit_planned_ = false;
  calls_ = wanted_ = committed_ = 0;
  waiting_.clear();
  shards_ = std::vector<Shard>(world_->ps.size());
  round_ = 0;
  next_poll_ = absl::ZeroDuration();
  awake_.ticked = world_->time.now();
  awake_.time.emplace(absl::Milliseconds(world_->cluster.lost_after_ms()));
  core_ = std::make_unique<CoordinatorCore>(
      world_->cluster, static_cast<uint32_t>(100 + process.life), Now(),
      [this](const StateUpdate& update) {
        updates_.push_back(update);
        call_matters_ |= !MayLag(update);
      },
      std::move(state));
  core_->journal()->Begin("/state/coordinator", durable_);
  EndCall();
  Tick();
  if (world_->plan.job.has_sandblaster()) {
    StartMinimizer(world_, this);
  }
}

void SimulatedCoordinator::Kill() {
  process.alive = false;
  core_.reset();
  waiting_.clear();
  // What was being written may be there.
  const bool got_there = writing_.has_value() && world_->dice.Once(2);
  updates_.resize(got_there ? *writing_ : durable_);
  writing_.reset();
  ForgetGivenUp(updates_.size());
  if (own_.has_value()) {
    own_->given_up = false;
  }
}

void SimulatedCoordinator::ForgetGivenUp(size_t committed) {
  const auto replaces = [](const StateUpdate& update) {
    return update.journal_named().replaces() != 0;
  };
  if (own_.has_value() && own_->given_up &&
      std::ranges::any_of(std::span(updates_).first(committed), replaces)) {
    own_.reset();
  }
}

void SimulatedCoordinator::BackUp(const std::string& job) {
  if (process.alive && has_own_folder() && core_->state().FindJob(job) != nullptr) {
    backup_ = std::vector<StateUpdate>(updates_.begin(),
                                       updates_.begin() + static_cast<std::ptrdiff_t>(durable_));
  }
}

void SimulatedCoordinator::TakeBackup(bool empty) {
  Kill();
  own_.emplace(OwnFolder{std::exchange(updates_, empty ? std::vector<StateUpdate>() : *backup_),
                         process.life});
}

bool SimulatedCoordinator::PutFolderBack() {
  if (has_own_folder() || own_->given_up) {
    return false;
  }
  if (process.alive) {
    EXPECT_EQ(core_->TakeCommands(moment()).size(), 0u) << "from a folder that is not the newest";
    Kill();
  }
  updates_ = std::exchange(own_, std::nullopt)->updates;
  return true;
}

absl::Status SimulatedCoordinator::GiveUpFolder() {
  const absl::Status status = core_->GiveUp("coordinator/0", "sim", Now()).status();
  if (own_.has_value()) {
    own_->given_up |= status.ok();
  }
  EndCall();
  return status;
}

uint64_t SimulatedCoordinator::EndCall() {
  std::vector<ShardCommand> commands = core_->TakeCommands(moment());
  for (const std::string& line : core_->TakeLog()) {
    world_->Trace(absl::StrCat("coordinator: ", line));
    EXPECT_FALSE(awake_.after_a_gap && (absl::StrContains(line, " is lost: pid ") ||
                                        absl::StrContains(line, " has been silent for ")))
        << "its own gap counts as silence: " << line;
  }
  if (updates_.size() > ended_) {
    ended_ = updates_.size();
    ++calls_;
    const bool matters = std::exchange(call_matters_, false);
    if (matters) {
      wanted_ = calls_;
    }
    if (matters || !commit_planned_) {
      commit_planned_ = true;
      world_->network.In(&process, matters ? absl::ZeroDuration() : kMostLag, [this] { Commit(); });
    }
  }
  for (ShardCommand& command : commands) {
    const uint32_t shard = command.shard;
    shards_[shard].commands.emplace_back(std::move(command), wanted_);
    NextCommand(shard);
  }
  world_->threads.WakeAll(this);
  return wanted_;
}

void SimulatedCoordinator::AfterCommit(uint64_t ticket, std::function<void()> what) {
  if (ticket <= committed_) {
    what();
  } else {
    waiting_.emplace_back(ticket, std::move(what));
  }
}

void SimulatedCoordinator::Commit() {
  if (writing_.has_value() || durable_ == ended_) {
    return;
  }
  if (world_->time.now() < blocked_until_) {
    core_->journal()->NoteTrouble("No space left on device");
    world_->network.In(&process, kTick, [this] { Commit(); });
    return;
  }
  core_->journal()->NoteTrouble("");
  commit_planned_ = false;
  writing_ = ended_;
  const absl::Duration takes = world_->dice.Between(absl::Microseconds(200), absl::Milliseconds(4));
  world_->network.In(&process, takes,
                     [this, calls = calls_, updates = ended_] { EndCommit(calls, updates); });
}

void SimulatedCoordinator::EndCommit(uint64_t calls, size_t updates) {
  writing_.reset();
  durable_ = updates;
  committed_ = calls;
  ForgetGivenUp(durable_);
  world_->threads.WakeAll(this);
  while (!waiting_.empty() && waiting_.front().first <= committed_) {
    const std::function<void()> what = std::move(waiting_.front().second);
    waiting_.pop_front();
    what();
  }
  if (durable_ < ended_) {
    commit_planned_ = true;
    Commit();
  }
}

void SimulatedCoordinator::Tick() {
  const Moment now = Now();
  const bool stood_still = world_->time.now() - awake_.ticked > longest_silence();
  awake_.ticked = world_->time.now();
  if (awake_.time->TakeGap()) {
    core_->ForgiveSilence(now.now);
  }
  core_->Tick(now);
  awake_.after_a_gap = stood_still;
  if (world_->time.now() >= next_poll_ || core_->wants_poll()) {
    round_ = core_->BeginPoll();
    next_poll_ = world_->time.now() + absl::Milliseconds(world_->cluster.heartbeat_ms());
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      Poll(shard);
    }
  }
  EndCall();
  awake_.after_a_gap = false;
  world_->network.In(&process, kTick, [this] { Tick(); });
}

void SimulatedCoordinator::Poll(uint32_t index) {
  Shard& shard = shards_[index];
  if (shard.polling || shard.polled == round_) {
    return;
  }
  shard.polling = true;
  const uint64_t round = shard.polled = round_;
  core_->journal()->NoteCommits(durable_, IsCommitted(wanted_));
  const std::optional<JournalMark> journal = core_->journal()->MarkFor(index);
  SimulatedPs* const ps = world_->ps[index];
  world_->network.Call<ShardStatusReply>(
      &process, &ps->process, kStatusDeadline,
      [ps, journal](auto reply) {
        if (journal.has_value()) {
          ps->heard()->Hear(*journal);
        }
        reply(ps->GetStatus());
      },
      [this, index, round](const absl::StatusOr<ShardStatusReply>& reply) {
        shards_[index].polling = false;
        core_->OnPoll(index, round, reply, Now());
        const uint64_t ticket = EndCall();
        if (reply.ok() && reply->job_size() > 0 && has_own_folder()) {
          AfterCommit(ticket, [this, index, generation = reply->job(0).generation()] {
            uint64_t& told = world_->told[index];
            told = std::max(told, generation);
          });
        }
        Poll(index);
      });
}

void SimulatedCoordinator::NextCommand(uint32_t index) {
  Shard& shard = shards_[index];
  if (shard.commanding || shard.commands.empty()) {
    return;
  }
  shard.commanding = true;
  auto [command, ticket] = std::move(shard.commands.front());
  shard.commands.pop_front();
  AfterCommit(ticket, [this, index, command = std::move(command)] {
    SimulatedPs* const ps = world_->ps[index];
    world_->network.Call<ShardAnswer>(
        &process, &ps->process, kCommandDeadline,
        [ps, command](auto reply) {
          ShardAnswer answer = CarryOut(command, ps);
          reply(std::move(answer));
        },
        [this, index, command](absl::StatusOr<ShardAnswer> reply) {
          ShardAnswer answer =
              reply.ok() ? *std::move(reply) : ShardAnswer{.status = reply.status()};
          world_->Trace(absl::StrCat(
              "command ", command.call, " of kind ", static_cast<int>(command.kind), " to ps/",
              index, " for ", command.session.ShortDebugString(), ": ", answer.status.ToString()));
          core_->OnCommand(command, answer, Now());
          shards_[index].commanding = false;
          EndCall();
          NextCommand(index);
        });
  });
}

}  // namespace monsoon::simulation
