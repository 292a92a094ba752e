// Coordinator: the minimiser's thread.

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "coordinator/core/coordinator.h"
#include "coordinator/sandblaster/batch_run.h"
#include "coordinator/sandblaster/vector_shards.h"

namespace monsoon {
namespace {

// The thread looks up so often, whatever happens.
constexpr absl::Duration kIdleWait = absl::Seconds(1);

}  // namespace

class Coordinator::Evaluator : public BatchEvaluator {
 public:
  Evaluator(Coordinator* coordinator, std::string job)
      : coordinator_(coordinator), job_(std::move(job)) {}

  absl::StatusOr<BatchResult> Evaluate(uint64_t evaluation, const std::string& w,
                                       bool probe) override {
    Coordinator& self = *coordinator_;
    RETURN_IF_ERROR(self.WithCore([&](Moment moment) {
      self.mutex_.AssertHeld();
      return self.core_.StartEvaluation(job_, evaluation, w, probe, moment);
    }));
    self.work_.NotifyAll();
    MutexLock lock(&self.mutex_);
    while (!self.stopping_) {
      ASSIGN_OR_RETURN(const std::optional<BatchResult> result,
                       self.core_.FinishedEvaluation(job_));
      if (result) {
        return *result;
      }
      self.changed_.WaitFor(&self.mutex_, kIdleWait);
    }
    return absl::CancelledError("the coordinator stops");
  }

 private:
  Coordinator* const coordinator_;
  const std::string job_;
};

bool Coordinator::BatchRuns(const std::string& job) {
  MutexLock lock(&mutex_);
  return !stopping_ && core_.BatchRuns(job);
}

void Coordinator::AwaitCheckpoint(const std::string& job) {
  MutexLock lock(&mutex_);
  while (!stopping_ && core_.BatchWaits(job)) {
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
    const absl::StatusOr<BatchEnd> end = RunBatchTask(*task);
    LOG(INFO) << "job " << task->job << ": minimiser ended: "
              << (end.ok() ? absl::StrCat(end->reason, ": ", end->detail)
                           : std::string(end.status().message()));
    WithCore([&](Moment moment) {
      mutex_.AssertHeld();
      core_.EndBatch(task->job, end, moment);
      return true;
    });
  }
}

absl::StatusOr<BatchEnd> Coordinator::RunBatchTask(const BatchTask& task) {
  VectorShards::Options options;
  options.job = task.job;
  options.job_term = task.job_term;
  options.term = task.term;
  options.shard_epochs = task.shard_epochs;
  for (const Shard& shard : shards_) {
    options.calls.push_back([gateway = shard.gateway.get()](const VectorRequest& request) {
      return gateway->Vector(request);
    });
  }
  options.stopped = [this, &task] { return !BatchRuns(task.job); };
  VectorShards shards(std::move(options));
  Evaluator evaluator(this, task.job);
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
    figures.set_commands(statistics.commands);
    figures.set_command_bytes(statistics.bytes);
    figures.set_largest_command_bytes(statistics.largest);
    const absl::StatusOr<bool> goes_on = WithCore([&](Moment moment) {
      mutex_.AssertHeld();
      return core_.NoteIteration(task.job, iteration, figures, moment);
    });
    // The next iteration publishes other parameters.
    AwaitCheckpoint(task.job);
    return goes_on;
  };
  return RunBatch({task.config.sandblaster(), task.contributions}, &shards, &evaluator, observe);
}

}  // namespace monsoon
