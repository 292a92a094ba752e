// BatchControl: batch jobs and their minimiser, which runs in a thread of its own: what it is given
// to do, what it asks for, and how a batch returns to an earlier iteration when what its
// minimiser knew, or a shard had, is gone.
//
// A batch whose minimiser has seen anything that is gone returns to a generation that all shards
// hold, and all of them with it. Each return is a new attempt; what is said of an earlier one
// has no effect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/checkpoints/checkpoints.h"
#include "coordinator/job/controller.h"
#include "coordinator/job/job_procedure.h"
#include "coordinator/sandblaster/batch_evaluator.h"
#include "coordinator/sandblaster/sandblaster_job.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"
#include "proto/job.pb.h"
#include "proto/minimizer.pb.h"

namespace monsoon {

// A run of a job's minimiser: between two returns to an earlier iteration.
struct BatchKey {
  std::string job;
  uint64_t attempt = 0;
};

// A batch job that waits for its minimiser's thread.
struct BatchTask {
  BatchKey batch;
  uint64_t job_term = 0;
  uint64_t term = 0;
  Job config;
  std::vector<uint64_t> shard_epochs;
  uint32_t contributions = 0;  // of a whole batch
  BatchFigures figures;        // of earlier runs
  std::optional<MinimizerState> from;
};

class BatchControl : public Controller {
 public:
  BatchControl(Registry* registry, Checkpoints* checkpoints)
      : Controller(registry), checkpoints_(checkpoints) {}

  // The job's batch begins.
  void Begin(JobRecord* job);
  // It goes on with one that has begun, in an earlier life of the coordinator.
  void Continue(JobRecord* job);

  // The batch is over once its last point is held.
  void FinishBatch(JobRecord* job, absl::Duration now);

  // ---- for the minimiser's thread; CoordinatorCore says more ----
  std::optional<BatchTask> TakeBatch();
  // Null unless the job's batch phase is under way, in this attempt.
  JobRecord* RunningBatch(const BatchKey& batch) const;
  // False: the job has ended, is about to, or has returned to an earlier iteration; its
  // minimiser must stop.
  bool Runs(const BatchKey& batch) const { return RunningBatch(batch) != nullptr; }
  // A checkpoint of this iteration is under way: nothing else may be published.
  bool Waits(const BatchKey& batch) const;
  absl::Status StartEvaluation(const BatchKey& batch, uint64_t evaluation, const std::string& w,
                               bool probe, Moment moment);
  absl::StatusOr<std::optional<BatchResult>> FinishedEvaluation(const BatchKey& batch);
  absl::StatusOr<bool> NoteIteration(const BatchKey& batch,
                                     const JobDescription::Iteration& iteration,
                                     const BatchFigures& figures,
                                     const MinimizerStateFunction& state, Moment moment);
  void EndBatch(const BatchKey& batch, const absl::StatusOr<BatchEnd>& end, Moment moment);

  // Returns if a minimiser has changed anything since the generation that is held.
  void OnShardRestarted(JobRecord* job, const ShardChange& change, const std::string& text,
                        absl::Duration now) override;
  void Recover(JobRecord* job, absl::Duration now) override;

 private:
  SandblasterOptions BatchOptionsOf(const JobRecord& job) const;
  // Orders all shards back, to what they hold; TakeBatch follows when they are.
  void ReturnBatch(JobRecord* job, absl::string_view why, absl::Duration now);

  Checkpoints* const checkpoints_;
};

}  // namespace monsoon
