// DownpourJob: what each replica of one Downpour job does next, from the first
// block to the end (Dean et al. 2012, section 4.1). It answers NextWork,
// schedules the warmstart and the evaluations, and decides when to stop.
//
//   kIdle -> [kWarmstart ->] kRunning -> kDraining -> kFinalEvaluation
//         -> kLeaving -> kDone
//
// kDraining: nothing more is leased, held blocks are being acknowledged.
// kLeaving: replicas are told to finish, for at most kLeaveTimeout.
//
// What it does not do: membership, sessions, statistics. A replica is added
// when its session is open on every shard, and removed after it is closed on
// every shard: only then are its blocks given away.
//
// A pure state machine: `now` (since any origin) never goes back. Not thread
// safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/data/block_dispenser.h"
#include "coordinator/downpour/evaluation_schedule.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

struct DownpourOptions {
  uint64_t examples = 0;  // of the training set
  uint64_t block_examples = 0;
  uint32_t batch_size = 0;
  Stop stop;
  Warmstart warmstart;
  double evaluate_every_epochs = 0;
  bool has_test = false;
  uint32_t max_epochs_ahead = 1;

  // `job` is valid; `examples` is what its training set has.
  static DownpourOptions FromJob(const Job& job, uint64_t examples);
};

// How long replicas that were told to finish may take to ask once more.
inline constexpr absl::Duration kLeaveTimeout = absl::Seconds(3);

class DownpourJob {
 public:
  enum class Phase { kIdle, kWarmstart, kRunning, kDraining, kFinalEvaluation, kLeaving, kDone };

  struct EvaluationRecord {
    uint64_t step = 0;  // when it was given out, as all that follows
    double epoch = 0;
    absl::Duration at;
    double loss = 0;      // mean per sample
    double accuracy = 0;  // in [0, 1]
    bool final = false;
  };
  struct JobEvent {
    std::string kind;  // as in JobDescription.Event
    std::string task;
    std::string text;
  };

  explicit DownpourJob(const DownpourOptions& options);

  void AddReplica(uint32_t worker, absl::Duration now);
  void RemoveReplica(uint32_t worker, absl::Duration now);

  // FAILED_PRECONDITION for a worker that is no replica, or a request number
  // that is neither the last one nor the next.
  absl::StatusOr<NextWorkReply> NextWork(uint32_t worker, const NextWorkRequest& request,
                                         absl::Duration now);
  // Safe to repeat. FAILED_PRECONDITION for an evaluation that another replica
  // has by now.
  absl::Status ReportEvaluation(uint32_t worker, const ReportEvaluationRequest& request,
                                absl::Duration now);
  // Total steps of all replicas, lost ones included. Never goes back.
  void NoteSteps(uint64_t steps) { steps_ = std::max(steps_, steps); }
  void Tick(absl::Duration now);

  Phase phase() const { return phase_; }
  bool running() const { return phase_ == Phase::kWarmstart || phase_ == Phase::kRunning; }
  // Training began; nothing before the first replica.
  std::optional<absl::Duration> started() const { return started_; }
  // The last block was acknowledged.
  std::optional<absl::Duration> trained() const { return trained_; }
  const std::set<uint32_t>& replicas() const { return live_; }
  const BlockDispenser& blocks() const { return blocks_; }
  const std::vector<EvaluationRecord>& evaluations() const { return evaluations_; }
  // "WAITING", "RUNNING", "EVALUATING" or "DONE".
  std::string ReplicaState(uint32_t worker) const;

  double epoch() const;           // data that is done, in epochs
  double planned_epochs() const;  // 0: no limit in epochs
  // Samples until the limit in data; nothing without one.
  std::optional<uint64_t> planned_examples() const;
  // Share of the nearest limit that is reached, in [0, 1].
  double fraction(absl::Duration now) const;

  // Events since the last call.
  std::vector<JobEvent> TakeEvents();

 private:
  struct Replica {
    uint64_t last_request = 0;
    std::optional<NextWorkReply> last_reply;
    bool trains = false;
    bool left = false;
  };

  void Decide(uint32_t worker, absl::Duration now, NextWorkReply* reply);
  // Leases blocks into `reply`; false when there is none for `worker`.
  bool Train(uint32_t worker, NextWorkReply* reply);
  // Goes to later phases as far as the state allows.
  void Advance(absl::Duration now);
  void BeginDraining(const std::string& why);
  void AddEvent(const std::string& kind, const std::string& text);

  const DownpourOptions options_;
  BlockDispenser blocks_;
  EvaluationSchedule schedule_;
  Phase phase_ = Phase::kIdle;
  std::set<uint32_t> live_;
  std::map<uint32_t, Replica> replica_;
  std::optional<uint32_t> warm_replica_;
  std::optional<absl::Duration> started_;
  std::optional<absl::Duration> trained_;
  absl::Duration leaving_since_;
  uint64_t steps_ = 0;
  EvaluationRecord given_out_;
  std::vector<EvaluationRecord> evaluations_;
  std::vector<JobEvent> events_;
};

}  // namespace monsoon
