// ClusterSimulation: what happens to processes, disks, clocks and messages.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simulation/cluster_simulation.h"
#include "tests/simulation/simulated_job.h"
#include "tests/simulation/simulated_program.h"
#include "tests/simulation/simulated_transport.h"
#include "tests/simulation/simulated_worker.h"

namespace monsoon::simulation {
namespace {

absl::Duration Milliseconds(uint32_t count) { return absl::Milliseconds(count); }

}  // namespace

const std::array<const char*, static_cast<size_t>(Fault::kCount)> kFaultNames = {
    "ps restarted",       "ps killed",           "power cut",        "bit rot",
    "ps dies in a write", "ps stopped",          "slow disk",        "full disk",
    "worker killed",      "worker stopped",      "worker replaced",  "drain",
    "coordinator killed", "coordinator stopped", "journal blocked",  "partition",
    "connection broken",  "clock jump",          "checkpoint asked", "long partition",
    "lasting partition",  "long suspension",     "all suspended",    "old folder",
    "folder put back",    "folder given up",     "old journal",      "journal put back",
    "journal given up"};

bool ClusterSimulation::MayRot() {
  if (!coordinator_.process.alive || job_.empty()) {
    return false;
  }
  const DurableJob* const job = coordinator_.core().state().FindJob(job_);
  if (job == nullptr) {
    return false;  // of another state folder
  }
  const auto phase = job->downpour().procedure().phase();
  return phase == ProcedureState::WARMSTART || phase == ProcedureState::RUNNING;
}

std::unique_ptr<SimulatedReplica> ClusterSimulation::MakeReplica(uint32_t index) {
  if (HasFeature(world_, Feature::kProgram)) {
    return std::make_unique<SimulatedProgram>(&world_, index);
  }
  return std::make_unique<SimulatedWorker>(&world_, index);
}

void ClusterSimulation::StartPs(uint32_t index, absl::Duration delay) {
  world_.time.After(delay, [this, index] {
    if (!ps_[index]->process.alive) {
      ps_[index]->Start();
    }
  });
}

void ClusterSimulation::StartWorker(uint32_t index, absl::Duration delay) {
  world_.time.After(delay, [this, index] {
    if (!ended_ && !workers_[index]->process.alive) {
      workers_[index]->Start();
    }
  });
}

void ClusterSimulation::StartCoordinator(absl::Duration delay) {
  world_.time.After(delay, [this] {
    if (!ended_ && !coordinator_.process.alive) {
      coordinator_.Start();
    }
  });
}

void ClusterSimulation::Disturb() {
  if (!faults_) {
    return;
  }
  Dice& dice = world_.dice;
  world_.time.After(dice.Between(absl::ZeroDuration(), pause_), [this] { Disturb(); });
  const uint32_t what = dice.Below(100);
  // A shard that dies may forget of which journal it has heard.
  if (what < 40 && coordinator_.has_own_folder()) {
    DisturbPs(dice.Below(static_cast<uint32_t>(ps_.size())));
  } else if (what >= 40 && what < 70) {
    DisturbWorker(dice.Below(static_cast<uint32_t>(workers_.size())));
  } else if (what >= 70 && what < 85) {
    DisturbCoordinator();
  } else if (what >= 85) {
    std::vector<SimulatedProcess*> all = {&coordinator_.process};
    for (const auto& ps : ps_) {
      all.push_back(&ps->process);
    }
    for (const auto& worker : workers_) {
      all.push_back(&worker->process);
    }
    const uint32_t a = dice.Below(static_cast<uint32_t>(all.size()));
    const uint32_t b = dice.Below(static_cast<uint32_t>(all.size()));
    if (a != b) {
      Count(Fault::kPartition);
      world_.network.Cut(all[a], all[b], dice.Between(Milliseconds(50), Milliseconds(1500)));
    }
  }
}

void ClusterSimulation::DisturbPs(uint32_t index) {
  Dice& dice = world_.dice;
  SimulatedPs& ps = *ps_[index];
  const absl::Duration back =
      dice.Between(absl::ZeroDuration(), Milliseconds(dice.Once(4) ? 3000 : 300));
  StartPs(index, back);
  if (!ps.process.alive) {
    return;
  }
  switch (dice.Below(7)) {
    case 6:
      return RestartPs(index, back);
    case 0:
    case 1: {
      const bool power_cut = dice.Once(3);
      const bool rot = dice.Once(3) && MayRot();
      Count(power_cut ? Fault::kPowerCut : Fault::kPsKill);
      if (rot) {
        Count(Fault::kBitRot);
      }
      return ps.Kill(power_cut, rot);
    }
    case 2:
      Count(Fault::kPsDiesInWrite);
      return ps.DieInWrite(dice.Below(40), [this, index, back] { StartPs(index, back); });
    case 3:
      Count(Fault::kPsStop);
      ps.process.wakes_at = world_.time.now() +
                            dice.Between(Milliseconds(20), Milliseconds(dice.Once(3) ? 3000 : 500));
      return;
    case 4:
      Count(Fault::kSlowDisk);
      return ps.DelayWrites(dice.Between(absl::ZeroDuration(), Milliseconds(800)));
    default: {
      Count(Fault::kFullDisk);
      ps.FillDisk(true);
      const uint64_t life = ps.process.life;
      world_.time.After(dice.Between(Milliseconds(100), Milliseconds(1500)), [&ps, life] {
        if (ps.process.alive && ps.process.life == life) {
          ps.FillDisk(false);
        }
      });
      return;
    }
  }
}

void ClusterSimulation::RestartPs(uint32_t index, absl::Duration back) {
  Count(Fault::kPsRestart);
  SimulatedPs& ps = *ps_[index];
  ps.Drain();
  world_.network.In(&ps.process, world_.dice.Between(Milliseconds(1), Milliseconds(100)),
                    [this, &ps, index, back] {
                      ps.heard()->Keep();
                      ps.Kill(/*power_cut=*/false, /*rot=*/false);
                      StartPs(index, back);
                    });
}

void ClusterSimulation::RestartOneByOne() {
  if (!faults_) {
    return;
  }
  Dice& dice = world_.dice;
  world_.time.After(dice.Between(Milliseconds(50), Milliseconds(800)),
                    [this] { RestartOneByOne(); });
  if (std::ranges::all_of(ps_, [](const auto& ps) { return ps->process.alive; })) {
    RestartPs(dice.Below(static_cast<uint32_t>(ps_.size())),
              dice.Between(absl::ZeroDuration(), Milliseconds(300)));
  }
}

void ClusterSimulation::DisturbWorker(uint32_t index) {
  Dice& dice = world_.dice;
  SimulatedReplica& worker = *workers_[index];
  const absl::Duration back = dice.Between(absl::ZeroDuration(), Milliseconds(1000));
  if (!worker.process.alive) {
    return StartWorker(index, back);
  }
  const absl::Duration stop =
      dice.Between(Milliseconds(20), Milliseconds(dice.Once(2) ? 3000 : 300));
  switch (dice.Below(7)) {
    case 0:
    case 1:
      Count(Fault::kWorkerKill);
      worker.Kill();
      return StartWorker(index, back);
    case 2:
      Count(Fault::kWorkerStop);
      worker.process.wakes_at = world_.time.now() + stop;
      return;
    case 3:
      Count(Fault::kWorkerReplaced);
      worker.process.wakes_at = world_.time.now() + stop;
      replaced_.push_back(std::move(workers_[index]));
      workers_[index] = MakeReplica(index);
      return StartWorker(index, back);
    case 4:
      if (coordinator_.process.alive && !HasFeature(world_, Feature::kProgram)) {
        Count(Fault::kDrain);
        (void)coordinator_.core().Drain(index);
      }
      return;
    default:
      Count(Fault::kConnectionBreak);
      return Break(worker, dice.Below(static_cast<uint32_t>(ps_.size())));
  }
}

void ClusterSimulation::Break(const SimulatedReplica& replica, uint32_t shard) {
  for (const auto& [number, transport] : world_.transports) {
    if (transport->process() == &replica.process) {
      transport->Break(shard, /*heard=*/true);
    }
  }
}

void ClusterSimulation::DisturbCoordinator() {
  Dice& dice = world_.dice;
  if (!coordinator_.process.alive) {
    return;
  }
  switch (dice.Below(6)) {
    case 0:
    case 1:
      Count(Fault::kCoordinatorKill);
      coordinator_.Kill();
      return StartCoordinator(
          dice.Between(absl::ZeroDuration(), Milliseconds(dice.Once(4) ? 3000 : 300)));
    case 2:
      Count(Fault::kCoordinatorStop);
      coordinator_.process.wakes_at =
          world_.time.now() + dice.Between(Milliseconds(20), Milliseconds(1500));
      return;
    case 3:
      Count(Fault::kJournalBlocked);
      return coordinator_.BlockJournal(dice.Between(Milliseconds(50), Milliseconds(1000)));
    case 4:
      Count(Fault::kClockJump);
      return coordinator_.JumpClock(dice.Between(-absl::Hours(1), absl::Hours(1)));
    default:
      Count(Fault::kCheckpointAsked);
      coordinator_.Serve<CheckpointOrder>(
          [this](CoordinatorCore& core, Moment now) { return core.Checkpoint(job_, now); },
          [](const absl::StatusOr<CheckpointOrder>&) {});
      return;
  }
}

void ClusterSimulation::DisturbRarely() {
  if (!faults_) {
    return;
  }
  Dice& dice = rare_dice_;
  world_.time.After(dice.Between(absl::ZeroDuration(), 8 * pause_), [this] { DisturbRarely(); });
  const uint32_t ps = dice.Below(static_cast<uint32_t>(ps_.size()));
  const uint32_t worker = dice.Below(static_cast<uint32_t>(workers_.size()));
  const absl::Duration length = dice.Between(Milliseconds(700), Milliseconds(5000));
  switch (dice.Below(12)) {
    case 0:
      Count(Fault::kLongPartition);
      return world_.network.Cut(&ps_[ps]->process, &workers_[worker]->process, length);
    case 1:
      Count(Fault::kLongSuspension);
      coordinator_.process.wakes_at = world_.time.now() + length;
      return;
    case 2:
      Count(Fault::kAllSuspended);
      coordinator_.process.wakes_at = world_.time.now() + length;
      for (const auto& one : ps_) {
        one->process.wakes_at = world_.time.now() + length;
      }
      for (const auto& one : workers_) {
        one->process.wakes_at = world_.time.now() + length;
      }
      return;
    case 3:
      return SwapFolder(ps);
    case 4:
    case 5:
    case 6:
      return SwapJournal();
    case 7:
    case 8:
      return coordinator_.BackUp(job_);
    default:
      return ps_[ps]->BackUp();
  }
}

void ClusterSimulation::CutForGood() {
  Dice& dice = rare_dice_;
  const uint32_t ps = dice.Below(static_cast<uint32_t>(ps_.size()));
  const uint32_t worker = dice.Below(static_cast<uint32_t>(workers_.size()));
  if (dice.Once(3) && workers_.size() > 1) {
    Count(Fault::kLastingPartition);
    world_.network.Cut(&ps_[ps]->process, &workers_[worker]->process, absl::InfiniteDuration());
  }
}

void ClusterSimulation::SwapFolder(uint32_t index) {
  SimulatedPs& ps = *ps_[index];
  // A copy from before a part was damaged is as good a folder, and has what was told as lost.
  if (!ps.process.alive || HasFeature(world_, Feature::kMemoryOnly) || !ps.rotten().empty() ||
      !coordinator_.has_own_folder()) {
    return;
  }
  Dice& dice = rare_dice_;
  Count(Fault::kOldFolder);
  ps.TakeBackup(/*empty=*/dice.Once(4));
  StartPs(index, dice.Between(absl::ZeroDuration(), Milliseconds(300)));
  const bool gives_up = dice.Once(8);
  world_.time.After(dice.Between(Milliseconds(50), Milliseconds(3000)), [this, index, gives_up] {
    if (gives_up) {
      return GiveUpFolder(index);
    }
    if (ps_[index]->PutFolderBack()) {
      Count(Fault::kFolderPutBack);
      StartPs(index, absl::ZeroDuration());
    }
  });
}

void ClusterSimulation::GiveUpFolder(uint32_t index) {
  if (!faults_ || ps_[index]->has_own_folder()) {
    return;
  }
  if (coordinator_.process.alive && coordinator_.has_own_folder()) {
    coordinator_.Serve<GiveUpReply>(
        [index](CoordinatorCore& core, Moment now) {
          return core.GiveUp(absl::StrCat("ps/", index), "sim", now);
        },
        [this](const absl::StatusOr<GiveUpReply>& reply) {
          if (reply.ok() && reply->job_size() > 0) {
            Count(Fault::kFolderGivenUp);
          }
        });
  }
  world_.time.After(Milliseconds(200), [this, index] { GiveUpFolder(index); });
}

void ClusterSimulation::SwapJournal() {
  const bool known = coordinator_.has_backup() && std::ranges::all_of(ps_, [this](const auto& ps) {
                       return ps->process.alive && ps->has_own_folder() && !ps->WillForget() &&
                              ps->heard()->newest().value_or(JournalMark()).commits() >
                                  coordinator_.backup_commits();
                     });
  if (!known || !coordinator_.process.alive || !coordinator_.has_own_folder()) {
    return;
  }
  Dice& dice = rare_dice_;
  Count(Fault::kOldJournal);
  const bool empty = dice.Once(4);
  coordinator_.TakeBackup(empty);
  StartCoordinator(dice.Between(absl::ZeroDuration(), Milliseconds(300)));
  const bool gives_up = !empty && dice.Once(2);
  world_.time.After(dice.Between(Milliseconds(50), Milliseconds(3000)), [this, gives_up] {
    if (gives_up) {
      GiveUpJournal(coordinator_.missed_since());
    } else if (coordinator_.PutFolderBack()) {
      Count(Fault::kJournalPutBack);
      StartCoordinator(absl::ZeroDuration());
    }
  });
}

void ClusterSimulation::GiveUpJournal(uint64_t missed_since) {
  if (!faults_ || coordinator_.has_own_folder() || coordinator_.missed_since() != missed_since) {
    return;
  }
  // Whoever says so is told once it is committed; where the coordinator dies first, he says it
  // again.
  if (coordinator_.process.alive && coordinator_.GiveUpFolder().ok()) {
    Count(Fault::kJournalGivenUp);
  }
  world_.time.After(Milliseconds(200), [this, missed_since] { GiveUpJournal(missed_since); });
}

void ClusterSimulation::EndFaults() {
  faults_ = false;
  world_.network.set_faults(false);
  coordinator_.PutFolderBack();
  if (!coordinator_.process.alive) {
    coordinator_.Start();
  }
  coordinator_.process.wakes_at = absl::ZeroDuration();
  coordinator_.BlockJournal(absl::ZeroDuration());
  for (const auto& ps : ps_) {
    ps->PutFolderBack();
    if (!ps->process.alive) {
      ps->Start();
    }
    ps->process.wakes_at = absl::ZeroDuration();
    ps->Heal();
  }
  for (const auto& worker : workers_) {
    if (!worker->process.alive) {
      worker->Start();
    }
    worker->process.wakes_at = absl::ZeroDuration();
  }
}

}  // namespace monsoon::simulation
