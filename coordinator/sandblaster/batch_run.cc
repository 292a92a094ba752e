#include "coordinator/sandblaster/batch_run.h"

#include <memory>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "coordinator/lbfgs/algorithm.h"
#include "coordinator/sandblaster/batch_objective.h"
#include "coordinator/sandblaster/shard_vector_space.h"

namespace monsoon {

absl::StatusOr<BatchEnd> RunMinimizer(const Sandblaster& config, VectorSpace* space,
                                      Objective* objective, const IterationObserver& observe) {
  OwnedVector start = OwnedVector::New(space, "w");
  RETURN_IF_ERROR(space->Copy(start.name(), ""));
  ASSIGN_OR_RETURN(const MinimizerOptions options, MakeMinimizerOptions(config));
  const std::unique_ptr<Direction> direction = MakeDirection(config, space);
  ASSIGN_OR_RETURN(const MinimizerResult result,
                   Minimize(space, objective, direction.get(), options, std::move(start), observe));
  return BatchEnd{std::string(EndReasonName(result.reason)), result.detail};
}

absl::StatusOr<BatchEnd> RunBatch(
    const BatchRunOptions& options, VectorShards* shards, BatchEvaluator* evaluator,
    const std::function<absl::StatusOr<bool>(const IterationReport&, uint64_t overflows)>&
        observe) {
  ShardVectorSpace space(shards);
  std::optional<BatchObjective> batch;
  batch.emplace(BatchObjective::Options{options.config.l2(), options.config.l2_weights_only(),
                                        options.contributions},
                &space, evaluator);
  ASSIGN_OR_RETURN(BatchEnd end, RunMinimizer(options.config, &space, &*batch,
                                              [&](const IterationReport& report) {
                                                return observe(report, batch->overflows());
                                              }));
  // The parameters hold the result; the vectors' memory is for other jobs.
  batch.reset();
  RETURN_IF_ERROR(space.Flush());
  return end;
}

}  // namespace monsoon
