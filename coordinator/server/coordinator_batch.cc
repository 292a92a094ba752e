// Coordinator: the minimiser's thread.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/fail_point.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "coordinator/sandblaster/batch_run.h"
#include "coordinator/sandblaster/vector_shards.h"
#include "coordinator/server/coordinator.h"

namespace monsoon {
namespace {

// The thread looks up so often, whatever happens.
constexpr absl::Duration kIdleWait = absl::Seconds(1);

}  // namespace

class Coordinator::Evaluator : public BatchEvaluator {
 public:
  Evaluator(Coordinator* coordinator, BatchKey batch)
      : coordinator_(coordinator), batch_(std::move(batch)) {}

  absl::StatusOr<BatchResult> Evaluate(uint64_t evaluation, const std::string& w,
                                       bool probe) override {
    Coordinator& self = *coordinator_;
    RETURN_IF_ERROR(self.WithCore([&](Moment moment) {
      self.mutex_.AssertHeld();
      return self.core_.StartEvaluation(batch_, evaluation, w, probe, moment);
    }));
    self.work_.NotifyAll();
    MutexLock lock(&self.mutex_);
    while (!self.stopping_) {
      ASSIGN_OR_RETURN(const std::optional<BatchResult> result,
                       self.core_.FinishedEvaluation(batch_));
      if (result) {
        return *result;
      }
      self.changed_.WaitFor(&self.mutex_, kIdleWait);
    }
    return absl::CancelledError("the coordinator stops");
  }

 private:
  Coordinator* const coordinator_;
  const BatchKey batch_;
};

bool Coordinator::BatchRuns(const BatchKey& batch) {
  MutexLock lock(&mutex_);
  return !stopping_ && core_.BatchRuns(batch);
}

void Coordinator::AwaitCheckpoint(const BatchKey& batch) {
  MutexLock lock(&mutex_);
  while (!stopping_ && core_.BatchWaits(batch)) {
    changed_.WaitFor(&mutex_, kIdleWait);
  }
}

void Coordinator::BatchLoop() {
  while (true) {
    std::optional<BatchTask> task;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && !(task = core_.TakeBatch())) {
        changed_.WaitFor(&mutex_, kIdleWait);
      }
      if (stopping_) {
        return;
      }
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
  VectorShards::Options options;
  options.job = task.batch.job;
  options.attempt = task.batch.attempt;
  options.job_term = task.job_term;
  options.term = task.term;
  options.shard_epochs = task.shard_epochs;
  for (const Shard& shard : shards_) {
    options.calls.push_back([gateway = shard.gateway.get()](const VectorRequest& request) {
      return gateway->Vector(request);
    });
  }
  options.stopped = [this, &task] { return !BatchRuns(task.batch); };
  VectorShards shards(std::move(options));
  Evaluator evaluator(this, task.batch);
  const auto observe = [&](const IterationReport& report, uint64_t overflows) {
    JobDescription::Iteration iteration;
    iteration.set_iteration(report.iteration);
    iteration.set_f(report.f);
    iteration.set_gradient_norm(report.gradient_norm);
    iteration.set_step_length(report.step_length);
    iteration.set_evaluations(report.evaluations);
    const VectorShards::Statistics statistics = shards.statistics();
    BatchFigures figures;
    figures.set_evaluations(report.evaluations);
    figures.set_overflows(overflows);
    figures.set_commands(task.figures.commands() + statistics.commands);
    figures.set_command_bytes(task.figures.command_bytes() + statistics.bytes);
    figures.set_largest_command_bytes(
        std::max(task.figures.largest_command_bytes(), statistics.largest));
    const auto state = [&] {
      MinimizerState state = report.state();
      state.set_overflows(overflows);
      return state;
    };
    const absl::StatusOr<bool> goes_on = WithCore([&](Moment moment) {
      mutex_.AssertHeld();
      return core_.NoteIteration(task.batch, iteration, figures, state, moment);
    });
    MONSOON_FAIL_POINT("batch.iterated");
    // The next iteration publishes other parameters.
    AwaitCheckpoint(task.batch);
    return goes_on;
  };
  return RunBatch({task.config.sandblaster(), task.contributions, task.batch.attempt, task.from},
                  &shards, &evaluator, observe);
}

}  // namespace monsoon
