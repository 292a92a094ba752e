#include "coordinator/sandblaster/batch_drive.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/model/parameter_layout.h"
#include "coordinator/lbfgs/minimizer.h"
#include "coordinator/lbfgs/scaled_variables.h"
#include "coordinator/sandblaster/batch_run.h"
#include "proto/minimizer.pb.h"

namespace monsoon {
namespace {

JobDescription::Iteration IterationOf(const IterationReport& report) {
  JobDescription::Iteration iteration;
  iteration.set_iteration(report.iteration);
  iteration.set_f(report.f);
  iteration.set_gradient_norm(report.gradient_norm);
  iteration.set_step_length(report.step_length);
  iteration.set_evaluations(report.evaluations);
  return iteration;
}

std::vector<TensorRange> TensorsOf(const ParameterLayout& layout) {
  std::vector<TensorRange> tensors;
  for (const TensorInfo& tensor : layout.tensors()) {
    tensors.push_back({tensor.offset, tensor.offset + tensor.size, tensor.is_statistic});
  }
  return tensors;
}

}  // namespace

absl::StatusOr<BatchEnd> DriveBatch(const BatchTask& task, std::vector<VectorShards::Call> calls,
                                    BatchSeat* seat) {
  VectorShards::Options options;
  options.job = task.batch.job;
  options.attempt = task.batch.attempt;
  options.job_term = task.job_term;
  options.term = task.term;
  options.shard_epochs = task.shard_epochs;
  options.calls = std::move(calls);
  options.stopped = [seat] { return !seat->Runs(); };
  VectorShards shards(std::move(options));
  const auto observe = [&](const IterationReport& report, uint64_t overflows) {
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
    const absl::StatusOr<bool> goes_on = seat->NoteIteration(IterationOf(report), figures, state);
    // The next iteration publishes other parameters.
    seat->AwaitCheckpoint();
    return goes_on;
  };
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(task.config.model()));
  return RunBatch({task.config.sandblaster(), task.contributions, TensorsOf(layout),
                   task.batch.attempt, task.from},
                  &shards, seat, observe);
}

}  // namespace monsoon
