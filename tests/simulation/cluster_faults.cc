// ClusterSimulation: what happens to processes, disks, clocks and messages.

#include <algorithm>

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
    "ps restarted",       "ps killed",           "power cut",       "bit rot",
    "ps dies in a write", "ps stopped",          "slow disk",       "full disk",
    "worker killed",      "worker stopped",      "worker replaced", "drain",
    "coordinator killed", "coordinator stopped", "journal blocked", "partition",
    "connection broken",  "clock jump",          "checkpoint asked"};

bool ClusterSimulation::MayRot() {
  if (drains_ || !coordinator_.process.alive || job_.empty()) {
    return false;
  }
  const DurableJob* const job = coordinator_.core().state().FindJob(job_);
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
  if (what < 40) {
    DisturbPs(dice.Below(static_cast<uint32_t>(ps_.size())));
  } else if (what < 70) {
    DisturbWorker(dice.Below(static_cast<uint32_t>(workers_.size())));
  } else if (what < 85) {
    DisturbCoordinator();
  } else {
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
      Count(Fault::kPsRestart);
      ps.Drain();
      return world_.network.In(&ps.process, dice.Between(Milliseconds(1), Milliseconds(100)),
                               [this, &ps, index, back] {
                                 ps.Kill(/*power_cut=*/false, /*rot=*/false);
                                 StartPs(index, back);
                               });
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
        drains_ = true;
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

void ClusterSimulation::EndFaults() {
  faults_ = false;
  world_.network.set_faults(false);
  if (!coordinator_.process.alive) {
    coordinator_.Start();
  }
  coordinator_.process.wakes_at = absl::ZeroDuration();
  coordinator_.BlockJournal(absl::ZeroDuration());
  for (const auto& ps : ps_) {
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
