// ClusterSimulation: a whole cluster in virtual time, driven by a seed: the real cores of
// coordinator, parameter servers and workers, one job on them, and for some seconds all that
// can happen to processes, disks, clocks and messages. Then it is left alone, and the job
// must end by itself.
//
// The judge, of a job that has SUCCEEDED:
// - Each stripe has each session's pushes 1..n exactly once, and its bits, parameters and
//   optimizer state, follow from what was applied alone; again from the disk (AppliedLog).
// - n is all that the session has pushed if it ended as it should, and at least what was
//   acknowledged if not, less what the job says is lost; and it says no more and no less than
//   what an earlier life had, where the power has not failed. Of who left as it should only a
//   damaged part loses anything, and that is told exactly, also after a power cut.
// - No block was ever leased to two sessions that shards take pushes of.
// - Each block of each epoch was trained on by a session that all shards have it of, or
//   whose loss is told.
//
// Not thread safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/coordinator.pb.h"
#include "tests/simulation/simulated_coordinator.h"
#include "tests/simulation/simulated_job.h"
#include "tests/simulation/simulated_ps.h"
#include "tests/simulation/simulated_replica.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

enum class Fault {
  kPsRestart,  // SIGTERM: it lets calls end, and comes again
  kPsKill,
  kPowerCut,
  kBitRot,
  kPsDiesInWrite,
  kPsStop,
  kSlowDisk,
  kFullDisk,
  kWorkerKill,
  kWorkerStop,
  kWorkerReplaced,  // it wakes up when another process has its place
  kDrain,
  kCoordinatorKill,
  kCoordinatorStop,
  kJournalBlocked,
  kPartition,
  kConnectionBreak,
  kClockJump,
  kCheckpointAsked,
  // Rare ones.
  kLongPartition,     // between a worker and a shard, for longer than the worker is waited for
  kLastingPartition,  // likewise, until the job has ended: all else is healed
  kLongSuspension,    // of the coordinator, for longer than anybody is waited for
  kAllSuspended,      // likewise, of everybody
  kOldFolder,         // a copy of a shard's folder in place of it, or nothing
  kFolderPutBack,
  kFolderGivenUp,
  kOldJournal,  // the same with the coordinator's folder
  kJournalPutBack,
  kJournalGivenUp,
  kCount,
};
extern const std::array<const char*, static_cast<size_t>(Fault::kCount)> kFaultNames;

struct SimulationCounts {
  std::array<uint64_t, static_cast<size_t>(Fault::kCount)> faults = {};
  uint64_t pushes = 0;
  uint64_t restores = 0;
  uint64_t sessions = 0;
  uint64_t lost_sessions = 0;
  uint64_t lost_records = 0;  // reported
  uint64_t failed_jobs = 0;   // by right: see ClusterSimulation::MayFail
  uint64_t lost_jobs = 0;     // likewise, of those that were on no disk
  uint64_t given_up = 0;      // likewise, with a state folder that did not come back
  uint64_t batch_returns = 0;
  uint64_t ended_by_programs = 0;
  std::array<uint64_t, static_cast<size_t>(Feature::kCount)> features = {};
};

class ClusterSimulation {
 public:
  struct Options {
    // Nothing happens to anybody: what a job comes to then.
    bool calm = false;
    // Beside the others what is rare. The seeds' other draws do not depend on it.
    bool rare = true;
    // Several workers train in rounds on several shards, one of which after the other is started
    // anew, as people do it. Nothing else happens to processes.
    bool restarts = false;
  };
  // `stacks` and `counts` outlive this.
  ClusterSimulation(uint64_t seed, FiberStacks* stacks, SimulationCounts* counts,
                    const Options& options);
  // All threads of processes come to their end.
  ~ClusterSimulation();

  // From now on what happens is kept, a line each.
  void KeepTrace() { world_.KeepTrace(); }
  const std::string& trace() const { return world_.trace(); }

  // Fails the running test for what must not happen.
  void Run();

 private:
  // From the submission to the job's end, or until it has had its time.
  JobDescription Play();
  void Submit();
  void MakeCluster();
  // A worker, or what trains in its place.
  std::unique_ptr<SimulatedReplica> MakeReplica(uint32_t index);
  void Disturb();
  void DisturbPs(uint32_t index);
  // As SIGTERM does it, and the next life begins after `back`.
  void RestartPs(uint32_t index, absl::Duration back);
  void RestartOneByOne();
  void DisturbWorker(uint32_t index);
  // Its connections to the shard break, if there are any.
  void Break(const SimulatedReplica& replica, uint32_t shard);
  void DisturbCoordinator();
  void DisturbRarely();
  // One worker of several never reaches one shard again: the others do its work.
  void CutForGood();
  void SwapFolder(uint32_t index);
  // Somebody says that the shard's folder will not come back, and says it again until that is done.
  void GiveUpFolder(uint32_t index);
  void SwapJournal();
  // The same of the coordinator's that is missed since then, and of no later one.
  void GiveUpJournal(uint64_t missed_since);
  void Count(Fault fault) {
    ++counts_->faults[static_cast<size_t>(fault)];
    world_.Trace(kFaultNames[static_cast<size_t>(fault)]);
  }
  void StartPs(uint32_t index, absl::Duration delay);
  void StartWorker(uint32_t index, absl::Duration delay);
  void StartCoordinator(absl::Duration delay);
  // All that is dead is started, and all that stands still goes on.
  void EndFaults();
  void RunUntil(absl::Duration end);
  // The name of a job that a program makes, once somebody knows it.
  void NoteJob();
  // Why the job waits, as people see it.
  std::string Reason();
  JobState State();
  // The newest part of a shard may be damaged: the one before it will do.
  bool MayRot();
  // Where a job stands that did not end well.
  std::string Explain(const JobDescription& job) const;
  // Only where nobody can go on: its reason must say so.
  bool MayFail(const JobDescription& job) const;

  void Judge(const JobDescription& job);
  void JudgeSession(const JobDescription& job, SessionId session, const SessionBook& book);
  // That the job trains on.
  uint64_t Blocks() const;
  void JudgeBlocks(const JobDescription& job);
  void JudgeCounting();
  // Of all shards, one behind the other; nothing where a shard has no slice.
  std::vector<float> Parameters();
  // What the shards hold is what the batch's minimiser has found, and what it finds where nothing
  // happens: so each contribution counts once. Also on the disks.
  void JudgeBatch(const JobDescription& job);
  // What the job says it has lost of the session on the shard, in records.
  static uint64_t Reported(const JobDescription& job, SessionId session, uint32_t shard);

  FiberStacks* const stacks_;
  const Options options_;
  World world_;
  SimulationCounts* const counts_;
  SimulatedCoordinator coordinator_;
  std::vector<std::unique_ptr<SimulatedPs>> ps_;
  std::vector<std::unique_ptr<SimulatedReplica>> workers_;  // by task
  std::vector<std::unique_ptr<SimulatedReplica>> replaced_;
  Dice rare_dice_;
  bool faults_ = true;
  bool ended_ = false;    // nobody is started any more
  absl::Duration pause_;  // the longest between two faults
  std::string job_;
};

}  // namespace monsoon::simulation
