// Coordinator: the minimiser's thread.

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fail_point.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "coordinator/sandblaster/batch_drive.h"
#include "coordinator/sandblaster/vector_shards.h"
#include "coordinator/server/coordinator.h"

namespace monsoon {

class Coordinator::Seat : public BatchSeat {
 public:
  Seat(Coordinator* coordinator, BatchKey batch)
      : coordinator_(coordinator), batch_(std::move(batch)) {}

  bool Runs() override {
    Coordinator& self = *coordinator_;
    MutexLock lock(&self.mutex_);
    return !self.stopping_ && self.core_.batches().Runs(batch_);
  }

  absl::StatusOr<BatchResult> Evaluate(uint64_t evaluation, const std::string& w,
                                       bool probe) override {
    Coordinator& self = *coordinator_;
    RETURN_IF_ERROR(self.WithCore([&](Moment moment) {
      self.mutex_.AssertHeld();
      return self.core_.batches().StartEvaluation(batch_, evaluation, w, probe, moment);
    }));
    self.work_.NotifyAll();
    MutexLock lock(&self.mutex_);
    while (!self.stopping_) {
      ASSIGN_OR_RETURN(const std::optional<BatchResult> result,
                       self.core_.batches().FinishedEvaluation(batch_));
      if (result) {
        return *result;
      }
      self.changed_.WaitFor(&self.mutex_, kIdleWait);
    }
    return absl::CancelledError("the coordinator stops");
  }

  absl::StatusOr<bool> NoteIteration(const JobDescription::Iteration& iteration,
                                     const BatchFigures& figures,
                                     const MinimizerStateFunction& state) override {
    const absl::StatusOr<bool> goes_on = coordinator_->WithCore([&](Moment moment) {
      coordinator_->mutex_.AssertHeld();
      return coordinator_->core_.batches().NoteIteration(batch_, iteration, figures, state, moment);
    });
    MONSOON_FAIL_POINT("batch.iterated");
    return goes_on;
  }

  void AwaitCheckpoint() override {
    Coordinator& self = *coordinator_;
    MutexLock lock(&self.mutex_);
    while (!self.stopping_ && self.core_.batches().Waits(batch_)) {
      self.changed_.WaitFor(&self.mutex_, kIdleWait);
    }
  }

 private:
  Coordinator* const coordinator_;
  const BatchKey batch_;
};

void Coordinator::BatchLoop() {
  while (true) {
    std::optional<BatchTask> task;
    uint64_t ticket = 0;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && !(task = core_.TakeBatch())) {
        changed_.WaitFor(&mutex_, kIdleWait);
      }
      if (stopping_) {
        return;
      }
      ticket = ticket_;
    }
    // A next life that did not know of this batch would begin it anew, and its operations would
    // have the numbers of those that the shards have got from here.
    if (!AwaitWritten(ticket)) {
      return;
    }
    MONSOON_FAIL_POINT("batch.begins");
    const absl::StatusOr<BatchEnd> end = RunBatchTask(*task);
    MONSOON_FAIL_POINT("batch.ended");
    LOG(INFO) << "job " << task->batch.job << ": minimiser ended: "
              << (end.ok() ? absl::StrCat(end->reason, ": ", end->detail)
                           : std::string(end.status().message()));
    WithCore([&](Moment moment) {
      mutex_.AssertHeld();
      core_.EndBatch(task->batch, end, moment);
      return true;
    });
  }
}

absl::StatusOr<BatchEnd> Coordinator::RunBatchTask(const BatchTask& task) {
  std::vector<VectorShards::Call> calls;
  for (const Shard& shard : shards_) {
    calls.push_back([gateway = shard.gateway.get()](const VectorRequest& request) {
      return gateway->Vector(request);
    });
  }
  Seat seat(this, task.batch);
  return DriveBatch(task, std::move(calls), &seat);
}

}  // namespace monsoon
