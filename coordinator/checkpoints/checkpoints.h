// Checkpoints: when generations of jobs are ordered, what they hold, who waits for one, and what
// follows when the disks cannot take it. CheckpointSchedule says when one is due; here stands
// what the rest of the coordinator has to do with that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job/checkpoint_schedule.h"
#include "coordinator/job/controller.h"
#include "coordinator/job/job_procedure.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// A job that fails or is cancelled ends without its last checkpoint after so long.
inline constexpr absl::Duration kLastCheckpointPatience = absl::Seconds(5);

class Checkpoints : public Controller {
 public:
  explicit Checkpoints(Registry* registry) : Controller(registry) {}

  // ---- who wants one ----
  // People do. FAILED_PRECONDITION for a job that has not begun to train, is kept in memory
  // only, or has lost its parameters.
  absl::StatusOr<CheckpointOrder> Ask(JobRecord* job);
  // The parameters that a client wrote cannot be made again: a job that begins with them
  // gets its first generation at once.
  void CheckpointClientsParameters(JobRecord* job);
  // The worker is gone, and its session is closed on all shards: from two generations on
  // no older one is needed, in which the session was open and its pushes were missing.
  void CheckpointAfterLoss(JobRecord* job, uint32_t worker);
  // A worker says whether it waits for its pushes to become durable.
  void NoteWaitingWorker(uint32_t worker, const HeartbeatRequest& request, absl::Duration now);

  // ---- orders ----
  // Of all jobs, those that are due; after whatever has changed a job or a shard.
  void OrderAll(Moment moment);
  // Of one, if it is due. `state`: of the minimiser that is between two iterations.
  void OrderCheckpoint(JobRecord* job, CheckpointSchedule::Activity activity, Moment moment,
                       const MinimizerStateFunction& state = nullptr);
  // A generation may be there: a poll is worth its while.
  bool wants_poll() const { return look_; }
  void NotePoll() { look_ = false; }
  // What the newest poll of the shard says of generations.
  void RecordCheckpoints(uint32_t shard, absl::Duration now);

  // ---- the end ----
  // All sessions of the ending job are closed. False: its last checkpoint is awaited.
  bool LastCheckpointIsDone(JobRecord* job, absl::Duration now);
  // Why a job that has nothing else to do does not end or go on to its next part; "": it does.
  std::string WaitsForEnd(const JobRecord& job, Moment moment) const;

  void DescribeDurability(const JobRecord& job, Moment moment,
                          JobDescription::Durability* durability) const;

  // False: what replicas have pushed is not on the disks yet, so they stay.
  bool Advance(JobRecord* job, absl::Duration now) override;
  void TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) override;
  void OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                absl::Duration now) override;
  std::string WaitsFor(const JobRecord& job, Moment moment) const override;
  void Recover(JobRecord* job, absl::Duration now) override;

 private:
  CheckpointSchedule::Activity ActivityOf(const JobRecord& job) const;
  absl::Duration AgeOfHeld(const JobRecord& job, absl::Duration now) const;
  CheckpointContext MakeContext(const JobRecord& job, const std::string& reason,
                                Moment moment) const;
  // The replicas are being told to finish, or a chain's second part is to begin.
  void CheckpointBeforeLeaving(JobRecord* job);
  // Somebody waits for a checkpoint. If it cannot be written, and the job says so, it goes
  // on without.
  void GiveUpStorage(JobRecord* job, absl::Duration now);
  // Once, of a job of which only some shards keep parts.
  void TellOfMemoryOnly(JobRecord* job, absl::Duration now);
  void TakeCheckpointEvents(JobRecord* job, absl::Duration now);
  // "waits for WHAT: why".
  std::string CheckpointReason(const JobRecord& job, const std::string& what,
                               absl::Duration now) const;

  bool look_ = false;
};

}  // namespace monsoon
