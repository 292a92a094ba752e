// JobRecord: everything the coordinator knows about one job.
//
// Stages, and the JobState that people see:
//   kQueued    PENDING       waits for earlier jobs or for the shards
//   kCreating  PENDING       its slices are being made
//   kReady     PENDING, or INITIALIZING while the client writes parameters
//   kActive    PENDING until a replica trains, then WARMSTART, RUNNING, FINISHING
//   kEnding    as before     sessions are being closed
//   kEnded     SUCCEEDED, FAILED or CANCELLED
//   kDeleting  as before     slices are being freed; then the record goes
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/shard_fanout.h"
#include "coordinator/downpour/downpour_job.h"
#include "coordinator/job/job_plan.h"
#include "coordinator/procedure/job_procedure.h"
#include "coordinator/replica/session_ledger.h"
#include "coordinator/sandblaster/sandblaster_job.h"
#include "coordinator/status/rate_window.h"
#include "coordinator/status/replica_totals.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

struct JobRecord {
  enum class Stage { kQueued, kCreating, kReady, kActive, kEnding, kEnded, kDeleting };

  struct Event {
    double elapsed_s = 0;
    std::string kind;
    std::string task;
    std::string text;
  };

  // Of the data set that a replica opened first.
  struct Fingerprint {
    uint64_t value = 0;  // 0: not known yet
    uint32_t worker = 0;
  };

  std::string id;
  JobPlan plan;
  Stage stage = Stage::kQueued;
  JobState end_state = JOB_STATE_UNSPECIFIED;  // from kEnding on
  std::string reason;                          // why it ended
  int64_t created_ms = 0;                      // Unix time
  std::optional<absl::Duration> ended;

  // submit --init: the client writes the parameters, then calls Start.
  bool init = false;
  bool client_started = false;
  absl::Duration ready_since;

  // Slices. `fanout` is the creation or deletion that is under way.
  ShardFanout fanout;
  bool slices_begun = false;  // some shard may hold a slice
  bool slices_ready = false;  // all shards hold theirs
  bool slices_lost = false;   // a shard has restarted since
  std::vector<uint64_t> shard_epoch;

  // From kActive on.
  // In a chain Downpour SGD comes first and is kept for its figures.
  std::unique_ptr<DownpourJob> downpour;
  std::unique_ptr<SandblasterJob> sandblaster;
  std::unique_ptr<SessionLedger> ledger;
  bool batch_driver = false;  // a thread drives, or has driven, `sandblaster`
  std::optional<absl::Duration> no_replica_since;
  std::map<uint32_t, int> replica_failures;
  std::set<uint32_t> excluded;  // workers that may not take part any more
  std::string last_failure;
  Fingerprint train_fingerprint;
  Fingerprint test_fingerprint;
  // The poll round that shows all pushes; the job ends with it.
  uint64_t final_round = 0;

  // Figures.
  ReplicaTotals totals;
  RateWindow rate;
  std::map<uint32_t, RateWindow> worker_rate;
  std::map<uint32_t, std::pair<absl::Duration, absl::Duration>> worker_span;  // first, last step
  std::vector<std::optional<ShardJobStatus>> shard_status;
  std::vector<uint32_t> shard_pid;
  std::vector<uint64_t> shard_rss;
  std::optional<uint64_t> skew_now;
  std::optional<uint64_t> skew_max;
  uint64_t skew_round = 0;
  std::vector<Event> events;

  bool ended_or_deleting() const { return stage >= Stage::kEnded; }
  bool waits_for_client() const { return init && !client_started; }
  // What is under way, or was last; null before kActive.
  JobProcedure* procedure() const {
    return sandblaster != nullptr ? static_cast<JobProcedure*>(sandblaster.get()) : downpour.get();
  }
  // Another procedure follows the one under way.
  bool hands_over() const { return sandblaster == nullptr && plan.job.has_sandblaster(); }
  // Training began, in the first procedure.
  std::optional<absl::Duration> started() const;
  JobState state() const;
  // Share of the work that is done, in [0, 1]; each part of a chain counts half.
  double fraction(absl::Duration now) const;
  // Since training began; 0 before.
  absl::Duration elapsed(absl::Duration now) const;
  void AddEvent(absl::Duration now, std::string kind, std::string task, std::string text);
};

}  // namespace monsoon
