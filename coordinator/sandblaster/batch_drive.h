// DriveBatch: one attempt of a batch job, in the thread that calls: the minimiser's. What it
// asks of the coordinator and tells it goes through a BatchSeat, whose owner knows the core, the
// lock and the time.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_procedure.h"
#include "coordinator/sandblaster/batch_control.h"
#include "coordinator/sandblaster/batch_evaluator.h"
#include "coordinator/sandblaster/vector_shards.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"

namespace monsoon {

class BatchSeat : public BatchEvaluator {
 public:
  // As BatchControl::Runs.
  virtual bool Runs() = 0;
  // As CoordinatorCore::NoteIteration.
  virtual absl::StatusOr<bool> NoteIteration(const JobDescription::Iteration& iteration,
                                             const BatchFigures& figures,
                                             const MinimizerStateFunction& state) = 0;
  // Returns once no checkpoint of the job's published parameters is under way.
  virtual void AwaitCheckpoint() = 0;
};

// `calls`: of one shard each. Blocks until the minimiser ends, or soon after the batch does not
// run any more: CANCELLED.
absl::StatusOr<BatchEnd> DriveBatch(const BatchTask& task, std::vector<VectorShards::Call> calls,
                                    BatchSeat* seat);

}  // namespace monsoon
