// DownpourJob: what each replica of one Downpour job does next, from the first
// block to the end (Dean et al. 2012, section 4.1). It answers NextWork,
// schedules the warmstart and the evaluations, and decides when to stop.
//
//   kIdle -> [kWarmstart ->] kRunning -> kDraining -> kFinalEvaluation
//         -> kLeaving -> kDone
//
// kDraining: nothing more is leased, held blocks are being acknowledged.
// kLeaving: replicas are told to finish, for at most kLeaveTimeout. In a chain
// it is left out: replicas bring what they have pushed to shards that are started anew,
// and wait until the next procedure has work for them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/downpour/block_dispenser.h"
#include "coordinator/downpour/data_plan.h"
#include "coordinator/job/job_procedure.h"
#include "coordinator/job/replica_set.h"
#include "coordinator/job/test_results.h"
#include "coordinator/state/state_writer.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// What an event "finishing" begins with where Stop.early has ended the training.
inline constexpr char kStoppedEarly[] = "stopped early: ";

struct DownpourOptions {
  uint64_t examples = 0;  // of the training set
  uint64_t block_examples = 0;
  // Nobody has counted the samples: `examples` only cuts them into epochs, of which people
  // are not told, and the job ends when no replica has any more.
  bool unnumbered = false;
  uint32_t batch_size = 0;
  Stop stop;
  Warmstart warmstart;
  double evaluate_every_epochs = 0;
  bool has_test = false;
  TestMetric keep_best = NO_TEST_METRIC;
  // With the reductions that were counted before; unset: none.
  std::optional<PlateauSchedule> plateau;
  uint32_t max_epochs_ahead = 1;
  // Another procedure goes on from here: replicas stay, and the last evaluation
  // is not the job's.
  bool hands_over = false;
  // What was done before, by a job that this one resumes; no warmstart then.
  DownpourProgress resumed;

  // `job` is valid; `examples` is what its training set has.
  static DownpourOptions FromJob(const Job& job, uint64_t examples);
};

class DownpourJob : public JobProcedure {
 public:
  // `writer`'s job has begun DOWNPOUR with options.resumed, and has come as far as its
  // state says: an earlier life of the coordinator may have brought it there.
  DownpourJob(const DownpourOptions& options, const JobWriter& writer);

  void AddReplica(uint32_t worker, absl::Duration now) override;
  uint64_t RemoveReplica(uint32_t worker, absl::Duration now) override;
  absl::StatusOr<NextWorkReply> NextWork(uint32_t worker, const NextWorkRequest& request,
                                         absl::Duration now,
                                         OnWait on_wait = OnWait::kTell) override;
  bool WorkIsNear(uint32_t) const override { return false; }
  absl::Status ReportEvaluation(uint32_t worker, const ReportEvaluationRequest& request,
                                absl::Duration now) override;
  void NoteSteps(uint64_t steps) override;
  void Tick(absl::Duration now) override;

  Phase phase() const override { return static_cast<Phase>(procedure_.state().phase()); }
  std::optional<absl::Duration> started() const override { return procedure_.started(); }
  std::optional<absl::Duration> trained() const override { return procedure_.trained(); }
  const std::set<uint32_t>& replicas() const override { return replicas_.live(); }
  std::vector<TestResult> test_results() const override { return test_.records(); }
  bool WantsTestGeneration() const override { return test_.WantsGeneration(); }
  void UseTestGeneration(uint64_t generation, absl::Duration now) override {
    test_.UseGeneration(generation, AsOf(now));
  }
  void NoteHeldGeneration(uint64_t generation) override { test_.NoteHeld(generation); }
  std::string ReplicaState(uint32_t worker) const override;
  uint64_t work_done_by(uint32_t worker) const override;
  uint64_t examples_done() const override { return state().examples_done(); }
  double epoch() const override;
  double planned_epochs() const override;
  std::optional<uint64_t> planned_examples() const override;
  double fraction(absl::Duration now) const override;
  void Describe(JobDescription* description) const override;
  std::vector<JobEvent> TakeEvents() override;

  // Of a PlateauSchedule, until now; 0 without one.
  uint32_t rate_reductions() const;
  const BlockDispenser& blocks() const { return blocks_; }
  const DownpourProgress& resumed() const { return options_.resumed; }

 private:
  void Decide(uint32_t worker, absl::Duration now, NextWorkReply* reply);
  // All gradients of the block are acknowledged.
  void BlockIsDone(uint32_t worker, BlockRef block);
  // It has said that it has no more samples.
  bool IsOut(uint32_t worker) const;
  // All replicas have, there is one, and none holds a block.
  bool AllAreOut() const;
  // Leases blocks into `reply`; false when there is none for `worker`.
  bool Train(uint32_t worker, NextWorkReply* reply);
  // Goes to later phases as far as the state allows.
  void Advance(absl::Duration now);
  void BeginDraining(const std::string& why);
  // What a new test result has brought about.
  void FollowTestResults(uint32_t reductions_before);
  void AddEvent(const std::string& kind, const std::string& text);

  // What is done by now.
  TestResult AsOf(absl::Duration now) const {
    return {.step = state().steps(), .epoch = epoch(), .at = now - *started()};
  }
  const DownpourState& state() const { return job_.job().downpour(); }
  // The only replica that trains during the warmstart; nothing: nobody yet.
  void SetWarmReplica(std::optional<uint32_t> worker);
  bool IsWarmReplica(uint32_t worker) const {
    return state().has_warm_replica() && state().warm_replica() == worker;
  }

  const DownpourOptions options_;
  const DataPlan plan_;
  const JobWriter job_;
  const ProcedureWriter procedure_;
  BlockDispenser blocks_;  // leases; what is done stands in the state too
  TestResults test_;
  ReplicaSet replicas_;
  std::vector<JobEvent> events_;
};

}  // namespace monsoon
