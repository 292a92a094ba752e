// JobProcedure: how a job trains, as the controllers see it: what each replica
// does next, when runs over the test set are due, when the job is done, and what changes its
// parameters. Downpour SGD and Sandblaster implement it, on ProcedureBase; a chain is a job
// with both, one after the other.
//
//   kIdle -> [kWarmstart ->] kRunning -> [kDraining ->] kFinalEvaluation
//         -> kLeaving -> kDone
//
// What it does not do: membership, sessions, statistics. A replica is added
// when its session is open on every shard, and removed after it is closed on
// every shard: only then is its work given away.
//
// Implementations are pure state machines over the job's durable state and their own
// volatile leases: `now` (since any origin) never goes back. Not thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job/stored_parameters.h"
#include "coordinator/job/test_results.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"
#include "proto/minimizer.pb.h"

namespace monsoon {

// Where a minimiser stands; empty: that is not asked for.
using MinimizerStateFunction = std::function<MinimizerState()>;

class JobProcedure {
 public:
  // Numbered as in ProcedureState, in order.
  enum class Phase {
    kIdle = ProcedureState::IDLE,  // no replica yet
    kWarmstart = ProcedureState::WARMSTART,
    kRunning = ProcedureState::RUNNING,
    // Nothing more is leased, what is held is being acknowledged.
    kDraining = ProcedureState::DRAINING,
    kFinalEvaluation = ProcedureState::FINAL_EVALUATION,
    // Replicas are told to finish, for a limited time.
    kLeaving = ProcedureState::LEAVING,
    kDone = ProcedureState::DONE,
  };

  struct JobEvent {
    std::string kind;  // as in JobDescription.Event
    std::string task;
    std::string text;
  };

  virtual ~JobProcedure() = default;

  // ---- what it is ----
  // As in the durable state.
  virtual Procedure kind() const = 0;
  // Pushes change the parameters, and nothing but pushes; else a minimiser does.
  virtual bool pushes() const = 0;
  // What others do in the place of a replica that is gone, for people.
  virtual const char* work_name() const = 0;

  // ---- replicas ----
  virtual void AddReplica(uint32_t worker, absl::Duration now) = 0;
  // Of a chain's next part: the replicas of the one before, and the numbers that their requests
  // have come to, so that a late one of that part is not taken for the first of this one.
  virtual void TakeOver(const JobProcedure& before, absl::Duration now) = 0;
  // The number that `worker` asked under last; 0: it has not.
  virtual uint64_t last_request(uint32_t worker) const = 0;
  // Returns how many blocks or contributions others will do in its place.
  virtual uint64_t RemoveReplica(uint32_t worker, absl::Duration now) = 0;

  // Safe to repeat: whoever asks under one number is told the same. FAILED_PRECONDITION
  // for a worker that is no replica, or a request number below the last one. kHold: an
  // answer to wait is not told, and does not count as one; the caller asks again.
  enum class OnWait { kTell, kHold };
  virtual absl::StatusOr<NextWorkReply> NextWork(uint32_t worker, const NextWorkRequest& request,
                                                 absl::Duration now, OnWait on_wait) = 0;
  // `worker` holds nothing, and waits for what this coordinator itself does within
  // milliseconds: better to ask again on its behalf than to let it ask.
  virtual bool WorkIsNear(uint32_t worker) const = 0;
  // Safe to repeat. FAILED_PRECONDITION for an evaluation that another replica
  // has by now.
  virtual absl::Status ReportEvaluation(uint32_t worker, const ReportEvaluationRequest& request,
                                        absl::Duration now) = 0;
  // The stream of that name is the worker's, or whose it is. INVALID_ARGUMENT where it cannot be.
  virtual absl::StatusOr<TakeStreamReply> TakeStream(uint32_t /*worker*/,
                                                     const std::string& /*stream*/) {
    return absl::InvalidArgumentError("the job has no streams: its samples have numbers");
  }
  // Before RemoveReplica: others may take the streams of this session, of whose pushes shards have
  // so many (nothing: not known).
  virtual void LeaveStreams(const SessionKey& /*session*/, std::optional<uint64_t> /*pushes*/) {}
  // How far the replica is, of a job in which those that are ahead wait (PushClocks).
  virtual absl::StatusOr<ClockReply> TellClock(uint32_t /*worker*/, const ClockRequest& /*told*/) {
    return absl::FailedPreconditionError("no replica of the job waits for another");
  }
  // Total steps of all replicas, lost ones included. Never goes back.
  virtual void NoteSteps(uint64_t) {}
  virtual void Tick(absl::Duration now) = 0;

  // ---- how far it is ----
  virtual Phase phase() const = 0;
  bool running() const { return phase() == Phase::kWarmstart || phase() == Phase::kRunning; }
  // Training began; nothing before the first replica.
  virtual std::optional<absl::Duration> started() const = 0;
  // Training ended: the final evaluation is all that is left.
  virtual std::optional<absl::Duration> trained() const = 0;
  virtual const std::set<uint32_t>& replicas() const = 0;
  virtual std::vector<TestResult> test_results() const = 0;
  // TestResults: of a job that keeps its best generation.
  virtual bool WantsTestGeneration() const = 0;
  virtual void UseTestGeneration(uint64_t generation, absl::Duration now) = 0;
  virtual void NoteHeldGeneration(uint64_t generation) = 0;

  // ---- its parameters ----
  // How often the rates of a PlateauSchedule are reduced by now; 0 without one.
  virtual uint32_t rate_reductions() const { return 0; }
  // All shards, as they are now, have what replicas have pushed; asked once nobody trains any more.
  virtual bool brought_back() const { return true; }
  // Of one whose shards store what workers have; null: pushes or a minimiser change them.
  virtual StoredParameters* stored() { return nullptr; }
  // A thread of this process may be at the job's slices.
  virtual bool driven() const { return false; }
  // Of one with a minimiser that is not trained yet: nobody changes the parameters now.
  virtual bool stands_still() const { return false; }
  // What goes on from the generation that is ordered now, of one with a minimiser; `context`
  // gets the vectors that it is to hold besides. `state`: as the minimiser stands; empty: it
  // has not begun, or has ended.
  virtual BatchSnapshot MakeSnapshot(const MinimizerStateFunction&, CheckpointContext*) const {
    return BatchSnapshot();
  }

  // ---- what people see ----
  // What was done before, by a job that this one resumes; nothing: empty.
  virtual DownpourProgress resumed() const { return DownpourProgress(); }
  // "WAITING", "RUNNING", "EVALUATING" or "DONE".
  virtual std::string ReplicaState(uint32_t worker) const = 0;
  // Blocks or contributions of `worker` that have counted.
  virtual uint64_t work_done_by(uint32_t worker) const = 0;

  virtual uint64_t examples_done() const = 0;
  virtual double epoch() const = 0;                    // data that is done, in epochs
  virtual double planned_epochs() const { return 0; }  // 0: no limit in epochs
  // Samples until the limit in data; nothing without one.
  virtual std::optional<uint64_t> planned_examples() const { return std::nullopt; }
  // Share of the nearest limit that is reached, in [0, 1].
  virtual double fraction(absl::Duration now) const = 0;
  // Sets `mode` and what only this procedure knows (`data` blocks, `sandblaster`).
  virtual void Describe(JobDescription* description) const = 0;

  // Events since the last call.
  virtual std::vector<JobEvent> TakeEvents() = 0;
};

}  // namespace monsoon
