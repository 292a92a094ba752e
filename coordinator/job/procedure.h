// JobProcedure: how a job trains, as the coordinator's state machine sees it:
// what each replica does next, when the test set is evaluated, when it is over.
// DownpourJob and SandblasterJob are the two.
//
// Membership, sessions and statistics are not its business. A replica is added
// when its session is open on every shard, and removed after it is closed on
// every shard: only then may its work be given away.
//
// A pure state machine: `now` (since any origin) never goes back. Not thread
// safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

class JobProcedure {
 public:
  enum class Stage {
    kIdle,       // no replica yet
    kWarmstart,  // one replica trains
    kRunning,
    kFinishing,  // trained; the final evaluation, replicas leave
    kDone,
  };

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

  virtual ~JobProcedure() = default;

  virtual void AddReplica(uint32_t worker, absl::Duration now) = 0;
  virtual void RemoveReplica(uint32_t worker, absl::Duration now) = 0;

  // Safe to repeat. FAILED_PRECONDITION for a worker that is no replica, or a
  // request number that is neither the replica's last one nor the next; the
  // first one of a replica may be any.
  virtual absl::StatusOr<NextWorkReply> NextWork(uint32_t worker, const NextWorkRequest& request,
                                                 absl::Duration now) = 0;
  // Safe to repeat. FAILED_PRECONDITION for an evaluation that another replica
  // has by now.
  virtual absl::Status ReportEvaluation(uint32_t worker, const ReportEvaluationRequest& request,
                                        absl::Duration now) = 0;
  // Total steps of all replicas, lost ones included. Never goes back.
  virtual void NoteSteps(uint64_t steps) = 0;
  virtual void Tick(absl::Duration now) = 0;

  virtual Stage stage() const = 0;
  // Replicas are being told to leave: no new ones are wanted.
  virtual bool leaving() const = 0;
  // Training began; nothing before the first replica.
  virtual std::optional<absl::Duration> started() const = 0;
  // The last gradient was counted.
  virtual std::optional<absl::Duration> trained() const = 0;
  virtual const std::set<uint32_t>& replicas() const = 0;
  virtual const std::vector<EvaluationRecord>& evaluations() const = 0;
  // "WAITING", "RUNNING", "EVALUATING" or "DONE".
  virtual std::string ReplicaState(uint32_t worker) const = 0;
  // Share of the nearest limit that is reached, in [0, 1].
  virtual double fraction(absl::Duration now) const = 0;

  // Events since the last call.
  virtual std::vector<JobEvent> TakeEvents() = 0;
};

}  // namespace monsoon
