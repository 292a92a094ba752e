// SimulatedCoordinator: the real CoordinatorCore with what coordinator/server/coordinator.cc
// and coordinator/journal do around it, in virtual time: calls are committed together, what
// leaves waits for that, and a process that dies keeps what was committed and perhaps what
// was being so.
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/core/awake_time.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/shards/shard_command.h"
#include "proto/coordinator_state.pb.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

class SimulatedCoordinator {
 public:
  explicit SimulatedCoordinator(World* world) : world_(world) {}

  SimulatedProcess process;

  void Start();
  void Kill();
  // Its clock of the wall goes on from another time.
  void JumpClock(absl::Duration by) { wall_offset_ += by; }
  // A copy of the state folder is put by; nothing is, where the journal has no such job yet.
  void BackUp(const std::string& job);
  bool has_backup() const { return backup_.has_value(); }
  // Commits of the copy.
  uint64_t backup_commits() const { return backup_->size(); }
  // The process dies, and its next life finds the copy in place of its state folder, or an empty
  // folder.
  void TakeBackup(bool empty);
  // The process dies, and its next life finds its own folder again. False, and nothing happens,
  // where it is there, or is being given up.
  bool PutFolderBack();
  bool has_own_folder() const { return !own_.has_value(); }
  // The last life that had its own folder, where that is missing: each time another one. 0: it is
  // there.
  uint64_t missed_since() const { return own_.has_value() ? own_->last_life : 0; }
  // Its own folder will not come back, once that is committed. False where nothing is missing.
  absl::Status GiveUpFolder();
  // Until then nothing can be committed.
  void BlockJournal(absl::Duration duration) { blocked_until_ = world_->time.now() + duration; }

  CoordinatorCore& core() { return *core_; }
  // As of its last call: one that stands still knows of no time.
  Moment moment() const {
    return {awake_.now, absl::ToInt64Milliseconds(world_->time.now() + wall_offset_)};
  }

  // What a thread of this process does with the core, and what follows from that. Whoever waits
  // for this is woken up.
  template <typename Function>
  auto WithCore(Function function)
      -> decltype(function(std::declval<CoordinatorCore&>(), Moment())) {
    auto result = function(*core_, moment());
    EndCall();
    return result;
  }
  // The ticket of the newest call that something rests on, and whether that is committed.
  uint64_t ticket() const { return wanted_; }
  bool IsCommitted(uint64_t ticket) const { return ticket <= committed_; }
  // A call that came: `reply` gets the answer once what it rests on is committed.
  template <typename Reply>
  void Serve(std::function<absl::StatusOr<Reply>(CoordinatorCore&, Moment)> call,
             std::function<void(absl::StatusOr<Reply>)> reply) {
    absl::StatusOr<Reply> result = call(*core_, Now());
    AfterCommit(EndCall(),
                [reply = std::move(reply), result = std::move(result)] { reply(result); });
  }

 private:
  struct Shard {
    std::deque<std::pair<ShardCommand, uint64_t>> commands;  // with tickets
    bool commanding = false;
    bool polling = false;
    uint64_t polled = 0;  // round
  };

  absl::Duration longest_silence() const {
    return absl::Milliseconds(world_->cluster.lost_after_ms());
  }
  Moment Now() {
    awake_.now = awake_.time->At(world_->time.now());
    return moment();
  }
  // The commands that came of a call wait for their turn; the ticket of the newest call
  // that something rests on.
  uint64_t EndCall();
  void AfterCommit(uint64_t ticket, std::function<void()> what);
  void Commit();
  void EndCommit(uint64_t calls, size_t updates);
  // What was given up is gone for good where the first `committed` updates say so.
  void ForgetGivenUp(size_t committed);
  void Tick();
  void Poll(uint32_t shard);
  void NextCommand(uint32_t shard);

  World* const world_;
  absl::Duration wall_offset_ = absl::Hours(400000);
  absl::Duration blocked_until_;

  // What all lives have committed, and after that what this one has not.
  std::vector<StateUpdate> updates_;
  std::optional<std::vector<StateUpdate>> backup_;
  // While others are in their place; given up by this life, which has not committed that yet.
  struct OwnFolder {
    std::vector<StateUpdate> updates;
    uint64_t last_life = 0;
    bool given_up = false;
  };
  std::optional<OwnFolder> own_;
  size_t durable_ = 0;
  size_t ended_ = 0;               // updates of calls that have ended
  std::optional<size_t> writing_;  // as many may be durable by now
  bool call_matters_ = false;
  uint64_t calls_ = 0;
  uint64_t wanted_ = 0;
  uint64_t committed_ = 0;
  bool commit_planned_ = false;
  std::deque<std::pair<uint64_t, std::function<void()>>> waiting_;

  struct {
    std::optional<AwakeTime> time;  // of this life
    absl::Duration now;
    absl::Duration ticked;     // last, by the world's time
    bool after_a_gap = false;  // this tick is: nobody may be lost by it
  } awake_;
  std::unique_ptr<CoordinatorCore> core_;
  std::vector<Shard> shards_;
  uint64_t round_ = 0;
  absl::Duration next_poll_;
};

}  // namespace monsoon::simulation
