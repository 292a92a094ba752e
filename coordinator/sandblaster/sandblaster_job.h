// SandblasterJob: what each replica of one Sandblaster job does next, from the
// first evaluation to the end (Dean et al. 2012, section 4.2). It answers
// NextWork with contributions, adds up the losses, and schedules the runs over
// the test set.
//
//   kIdle -> kRunning -> kFinalEvaluation -> kLeaving -> kDone
//
// The L-BFGS driver stands outside. It opens an evaluation on the shards, calls
// StartEvaluation, polls FinishedEvaluation, and closes it on the shards; at
// the end DriverDone. At most one evaluation is open.
//
// The loss has the same bits whichever replicas computed the contributions, as
// long as their backends have one fingerprint: reproducibility() tells.
//
// A pure state machine over the job's durable state: `now` (since any origin) never
// goes back. Not thread safe: the driver's thread holds the coordinator's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job/job_record.h"
#include "coordinator/job/procedure_base.h"
#include "coordinator/sandblaster/batch_evaluator.h"
#include "coordinator/sandblaster/chunk_planner.h"
#include "coordinator/sandblaster/contribution_scheduler.h"
#include "coordinator/sandblaster/loss_ledger.h"
#include "coordinator/state/state_writer.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

struct SandblasterOptions {
  uint64_t examples = 0;  // of the training set
  ChunkPlan plan;         // of the batch
  uint32_t max_iterations = 0;
  uint32_t evaluate_every_iterations = 0;  // 0: only at the end
  double target_accuracy = 0;              // 0: none
  bool has_test = false;
  TestMetric keep_best = NO_TEST_METRIC;
  bool backup_copies = true;

  // `job` is valid and has `sandblaster`; `examples` is what its training set
  // has, `replicas` how many workers it may have. INVALID_ARGUMENT for a sample
  // larger than the set and for chunks that do not fit, naming the field.
  static absl::StatusOr<SandblasterOptions> FromJob(const Job& job, uint64_t examples,
                                                    uint32_t replicas);
};

class SandblasterJob : public ProcedureBase {
 public:
  struct EvaluationResult {
    uint64_t evaluation = 0;
    // Sum of the losses of all samples of the batch; +infinity unless `finite`.
    double loss_sum = 0;
    uint64_t examples = 0;  // that were counted; all unless not `finite`
    double correct = 0;
    bool finite = true;
    absl::Duration took;
  };

  // `writer`'s job has begun SANDBLASTER. Of what an earlier life of the coordinator had done
  // it knows the state: iterations, figures, test results, how it ended.
  SandblasterJob(const SandblasterOptions& options, const JobWriter& writer);

  // ---- for the driver ----

  // How many contributions an evaluation has; a probe is contribution 0 alone.
  uint32_t contributions(bool probe) const { return probe ? 1 : options_.plan.contributions(); }
  // Leases the contributions of `evaluation` (ids grow, never 0) at the vector
  // of that name, which is on all shards, as is the open evaluation. No other
  // one is open. May be called before the first replica joins.
  void StartEvaluation(uint64_t evaluation, const std::string& vector, bool probe,
                       absl::Duration now);
  // The result, once: when all contributions have counted, or as soon as one is
  // not finite (the other leases are dropped).
  std::optional<EvaluationResult> FinishedEvaluation();
  // Drops the open evaluation, or its result. Nothing happens without one.
  void CancelEvaluation();
  // The parameters become those of an earlier iteration: drops the evaluation, and begins
  // the run over the test set that is under way anew, since it may have seen others.
  void Return();
  // An iteration ended, and its parameters are published; elapsed_s is filled
  // in here. Test-set evaluations overlap the next batch evaluation.
  void NoteIteration(JobDescription::Iteration iteration, absl::Duration now);
  void NoteFigures(const BatchFigures& figures);
  // A run over the test set during the training was as accurate as the job wants.
  bool target_reached() const;
  // Training ends: drops what is open and begins the final test-set evaluation
  // of the published parameters.
  void DriverDone(const BatchEnd& end, absl::Duration now);

  // Who drives it; a thread of this process, in one attempt after another.
  struct Driver {
    bool there = false;
    // The attempt for which a thread was given it last.
    std::optional<uint64_t> taken;
    // The minimiser has ended so, and its last point is not held yet.
    std::optional<BatchEnd> end;
  };
  Driver& driver() { return driver_; }

  // ---- for the controllers: JobProcedure says more ----

  Procedure kind() const override { return SANDBLASTER; }
  bool pushes() const override { return false; }
  const char* work_name() const override { return "contributions"; }

  void AddReplica(uint32_t worker, absl::Duration now) override;
  uint64_t RemoveReplica(uint32_t worker, absl::Duration now) override;
  bool WorkIsNear(uint32_t worker) const override;
  absl::Status ReportEvaluation(uint32_t worker, const ReportEvaluationRequest& request,
                                absl::Duration now) override;

  bool driven() const override { return driver_.there; }
  bool stands_still() const override;
  BatchSnapshot MakeSnapshot(const MinimizerStateFunction& state,
                             CheckpointContext* context) const override;

  uint64_t work_done_by(uint32_t worker) const override { return scheduler_.counted_by(worker); }
  uint64_t examples_done() const override { return examples_done_; }
  double epoch() const override;
  double fraction(absl::Duration now) const override;
  void Describe(JobDescription* description) const override;

  // "same bits", or "once" when replicas of different backends took part.
  const char* reproducibility() const { return state().backend_size() > 1 ? "once" : "same bits"; }
  const ContributionScheduler& scheduler() const { return scheduler_; }

 private:
  // INVALID_ARGUMENT for a result that cannot be.
  absl::Status TakeReport(uint32_t worker, const NextWorkRequest& request,
                          absl::Duration now) override;
  void Decide(uint32_t worker, absl::Duration now, NextWorkReply* reply) override;
  void Advance(absl::Duration now) override { AdvanceToEnd(/*stay=*/false, now); }
  bool Works(uint32_t worker) const override { return scheduler_.held(worker) > 0; }
  uint64_t steps_done() const override;  // the last iteration; 0: none has ended
  void Begin(const std::string& text, absl::Duration now);
  // OK for results that are late.
  absl::Status Validate(uint32_t worker, const ContributionResult& result) const;
  void Take(uint32_t worker, const ContributionResult& result, absl::Duration now);
  void Finish(absl::Duration now);
  void NoteBackend(uint32_t worker, const std::string& fingerprint);
  void Wait(NextWorkReply* reply) const;
  const SandblasterState& state() const { return job_.job().sandblaster(); }

  const SandblasterOptions options_;
  Driver driver_;
  ContributionScheduler scheduler_;
  LossLedger ledger_;
  std::string vector_;
  absl::Duration evaluation_began_;
  std::optional<EvaluationResult> finished_;
  uint64_t examples_done_ = 0;  // of finished evaluations and the open one
};

// The job, JOB_ACTIVE, begins to train so.
void BeginSandblaster(const SandblasterOptions& options, JobRecord* job);
// It goes on with what it has begun, in an earlier life of the coordinator.
void ContinueSandblaster(const SandblasterOptions& options, JobRecord* job);
// What is under way; null unless that is a batch.
SandblasterJob* BatchOf(const JobRecord& job);

}  // namespace monsoon
