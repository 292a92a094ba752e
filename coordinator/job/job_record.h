// JobRecord: one job as the coordinator works on it: its durable state
// (coordinator/state), which only updates change, and beside it what is found out
// anew after a restart: commands under way, leases, statistics and rates.
//
// Stages, and the JobState that people see; a joined job waits for no other job, and is
// PENDING while no program writes its parameters or trains it:
//   JOB_QUEUED    PENDING       waits for earlier jobs or for the shards
//   JOB_CREATING  PENDING       its slices are being made
//   JOB_READY     PENDING, or INITIALIZING while the client writes parameters
//   JOB_ACTIVE    PENDING until a replica trains, then WARMSTART, RUNNING, FINISHING
//   JOB_ENDING    as before     sessions are being closed
//   JOB_ENDED     SUCCEEDED, FAILED or CANCELLED
//   JOB_DELETING  as before     slices are being freed; then the record goes
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/config/job.h"
#include "coordinator/job/checkpoint_schedule.h"
#include "coordinator/job/job_plan.h"
#include "coordinator/job/job_procedure.h"
#include "coordinator/session/rate_window.h"
#include "coordinator/session/recent_counts.h"
#include "coordinator/session/recent_latency.h"
#include "coordinator/session/replica_totals.h"
#include "coordinator/session/session_ledger.h"
#include "coordinator/session/step_pace.h"
#include "coordinator/shards/shard_fanout.h"
#include "coordinator/state/state_writer.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"

namespace monsoon {

// A worker whose session a shard does not answer, though the shard is there.
struct CutWorker {
  uint32_t shard = 0;
  absl::Duration since;
};

// Of a joined job: who writes its initial parameters.
struct InitialWriterPresence {
  absl::Duration heard;          // last
  bool is_there = false;         // that is not long ago
  std::optional<CutWorker> cut;  // it says that a shard does not answer it
};

// A slice that a shard is to make.
struct SliceCreation {
  uint64_t told = 0;  // the life of the shard that was told last and has not made it; 0: none
  int deaths = 0;     // lives of the shard that ended at it, in a row
};

// What a job's replicas and shards have reported. All of it comes anew.
struct JobFigures {
  explicit JobFigures(size_t shards)
      : creations(shards), shard_status(shards), shard_pid(shards), shard_rss(shards) {}

  ReplicaTotals totals;
  RateWindow rate;
  RateWindow long_rate{absl::Minutes(30), absl::Seconds(1)};  // for the time that is left
  RecentLatency recent_fetch;
  RecentLatency recent_push;
  RecentCounts<uint64_t> recent_staleness;
  std::map<uint32_t, RecentCounts<uint64_t>> worker_staleness;
  std::map<uint32_t, RateWindow> worker_rate;
  std::map<uint32_t, uint64_t> worker_settings;  // the revision that its session trains with
  std::map<uint32_t, absl::Duration> wait_told;  // when a worker's wait became an event
  std::map<uint32_t, CutWorker> cut;             // by worker
  std::map<uint32_t, absl::Duration> kept_out;   // workers that were cut: until when
  // Of sessions that are being closed, by worker and incarnation: pushes that each shard has.
  std::map<std::pair<uint32_t, uint64_t>, std::map<uint32_t, uint64_t>> closed_pushes;
  // Of the open sessions, where the job has local.dynamic.
  std::optional<StepPace> pace;
  std::vector<SliceCreation> creations;  // by shard
  std::vector<std::optional<ShardJobStatus>> shard_status;
  std::vector<uint32_t> shard_pid;
  std::vector<uint64_t> shard_rss;
  std::optional<uint64_t> skew_now;
  std::optional<uint64_t> skew_max;
  bool catching_up = false;  // such a shard may lag by more than shards do by themselves
};

// A slice that a shard, started anew, is to get back.
struct SliceRestore {
  uint64_t epoch = 0;  // the life to which the order goes
  bool in_flight = false;
  absl::Duration not_before = -absl::InfiniteDuration();
  // When the shard's earlier life answered last.
  std::optional<absl::Duration> last_seen;
  std::string waits_for;    // why the newest order was not carried out yet
  std::string given_up_by;  // who does without a folder that is not there; "": nobody
};

// What a shard was told of the job's rate last.
struct RateOrder {
  bool in_flight = false;
  uint32_t reductions = 0;
  uint64_t taken_by = 0;  // the life of the shard that has taken them; 0: none has
  absl::Duration not_before = -absl::InfiniteDuration();
  std::string told;  // the last refusal, which an event has told
};

// What a shard was told last of the writes of a synchronous job.
struct StoreOrder {
  bool in_flight = false;
  uint64_t write = 0;     // to be adopted
  uint64_t taken_by = 0;  // the life of the shard that has adopted it; 0: none has
  absl::Duration not_before = -absl::InfiniteDuration();
  std::string told;  // the last refusal, which an event has told
};

// What a shard was told of the job's settings last (SettingsOrders).
struct SettingsOrder {
  bool in_flight = false;
  uint64_t life = 0;     // of the shard: what follows is of it
  uint64_t taken = 0;    // revision
  uint64_t held = 0;     // the revision for which it ends no round
  uint64_t held_at = 0;  // no stripe is further
  absl::Duration not_before = -absl::InfiniteDuration();
  std::string told;  // the last refusal, which an event has told
};

// By shard.
struct JobOrders {
  std::vector<RateOrder> rates;
  std::vector<StoreOrder> stores;
  std::vector<SettingsOrder> settings;
};

// Whether somebody trains the job.
struct Attendance {
  // Since when nobody does, and what was done by then; since when somebody does.
  std::optional<absl::Duration> none_since;
  uint64_t done_before = 0;
  std::optional<absl::Duration> some_since;
};

class JobRecord {
 public:
  explicit JobRecord(const JobWriter& writer);

  // ---- durable ----
  const DurableJob& state() const { return writer_.job(); }
  const std::string& id() const { return state().id(); }
  JobStage stage() const { return state().stage(); }
  JobState end_state() const { return state().end_state(); }
  const std::string& reason() const { return state().reason(); }
  std::optional<absl::Duration> ended() const;
  bool ended_or_deleting() const { return stage() >= JOB_ENDED; }
  bool waits_for_client() const {
    return state().init() && !state().has_source() && !state().client_started();
  }
  // Its sessions may be open, or be closing.
  bool active() const { return stage() == JOB_ACTIVE || stage() == JOB_ENDING; }
  // Programs bring its replicas; it is not in the queue for those of the cluster.
  bool joined() const { return IsJoined(plan.job); }
  // One of them writes its initial parameters. Those of a checkpoint are a client's to write.
  bool written_by_program() const { return joined() && !state().has_resume(); }
  bool excluded(uint32_t worker) const;
  // Training began, in the first procedure.
  std::optional<absl::Duration> started() const;

  // CHECKs that `stage` may follow; back to JOB_QUEUED, procedures and sessions go.
  void ChangeStage(JobStage stage, absl::Duration now);
  // The job ends, or an ending job that would have succeeded ends otherwise; no
  // effect on others. To JOB_ENDING if it is active, else to JOB_ENDED.
  void End(JobState state, const std::string& reason, absl::Duration now);
  void AddEvent(absl::Duration now, const std::string& kind, const std::string& task,
                const std::string& text);
  const JobWriter& writer() const { return writer_; }
  template <typename Fill>
  void Make(Fill fill) {
    writer_.Make(fill);
  }

  // ---- what works on it ----
  // The next procedure of its plan; it has begun, in the durable state.
  void AddProcedure(std::unique_ptr<JobProcedure> procedure) {
    procedures_.push_back(std::move(procedure));
  }
  // In their order; of a chain the first part stays beside the second, for people.
  const std::vector<std::unique_ptr<JobProcedure>>& procedures() const { return procedures_; }
  // What is under way, or was last; null before JOB_ACTIVE.
  JobProcedure* procedure() const {
    return procedures_.empty() ? nullptr : procedures_.back().get();
  }
  // Another procedure follows the one under way.
  bool hands_over() const { return procedures_.size() < plan.procedures().size(); }
  // A minimiser changes its parameters, and has not come to its end.
  bool batch_under_way() const {
    return stage() == JOB_ACTIVE && procedure() != nullptr && !procedure()->pushes() &&
           !procedure()->trained();
  }
  // How often its shards are to have reduced their rates by now.
  uint32_t rate_reductions() const {
    return procedures_.empty() ? 0 : procedures_.front()->rate_reductions();
  }
  void BeginSessions();
  // What was done by the job that it resumes; nothing: empty.
  DownpourProgress resumed() const {
    return procedures_.empty() ? DownpourProgress() : procedures_.front()->resumed();
  }
  SessionLedger* ledger() const { return ledger_.get(); }
  // What the worker's session has reported by now outlives this coordinator: the replica, which
  // is told to finish, tells no other.
  void KeepReported(uint32_t worker);
  // Begins to close the worker's session, or all sessions.
  void CloseSession(uint32_t worker);
  void CloseSessions();

  JobState job_state() const;
  // Share of the work that is done, in [0, 1]; each part of a chain counts half.
  double fraction(absl::Duration now) const;
  // Since training began; 0 before.
  absl::Duration elapsed(absl::Duration now) const;

  // Its data were looked at, and are right: `seen` is its plan with what was found.
  void TakeData(JobPlan seen);
  // Its settings change while it trains, as JobPlan::ChangeSettings has made of its plan.
  void TakeSettings(JobPlan changed, absl::Duration now);
  // As programs that enter it say it: without what was set since.
  const Job& submitted() const {
    return state().has_settings() ? state().settings().submitted() : plan.job;
  }
  JobPlan plan;  // durable; changes by these two alone

  // ---- volatile ----
  ShardFanout fanout;  // the creation or deletion that is under way
  // Calls to shards up to this one belong to creations before it.
  uint64_t fanout_after = 0;
  // The poll round under way when the last shard had made its slice: later ones show it.
  uint64_t ready_round = 0;
  CheckpointSchedule checkpoints;
  // Since when an ending job, whose sessions are closed, waits for its last checkpoint.
  std::optional<absl::Duration> last_checkpoint_since;
  // By shard.
  std::vector<SliceRestore> restores;
  JobOrders orders;
  // Whose sessions are being closed though they did not leave: nobody else has what they
  // have pushed.
  std::set<uint32_t> lost_workers;
  // Holds all that was pushed until the replicas were told to finish; 0: none is wanted.
  uint64_t leaving_generation = 0;
  bool told_memory_only = false;  // an event says that only some shards keep state
  Attendance attendance;
  int lost_final_tests = 0;  // workers that were lost while they tested the final parameters
  // The poll round that shows all pushes; the job ends with it.
  uint64_t final_round = 0;
  InitialWriterPresence initial_writer;
  JobFigures figures;

 private:
  const JobWriter writer_;
  std::vector<std::unique_ptr<JobProcedure>> procedures_;
  std::unique_ptr<SessionLedger> ledger_;
};

// The job as the generation holds it that was ordered last.
Job JobOfGeneration(const JobRecord& job);

}  // namespace monsoon
