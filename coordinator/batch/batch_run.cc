#include "coordinator/batch/batch_run.h"

#include <memory>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "coordinator/batch/batch_objective.h"
#include "coordinator/batch/shard_vector_space.h"
#include "coordinator/lbfgs/algorithm.h"
#include "coordinator/lbfgs/synthetic_objective.h"

namespace monsoon {

absl::StatusOr<std::string> RunBatch(
    const BatchRunOptions& options, VectorShards* shards, BatchBoard* board,
    const std::function<absl::Status(const IterationReport&, uint64_t overflows)>& observe) {
  ShardVectorSpace space(shards);
  OwnedVector start = OwnedVector::New(&space, "w");
  RETURN_IF_ERROR(space.Copy(start.name(), ""));

  BatchObjective batch({options.config.l2(), options.contributions}, shards, &space, board);
  std::optional<SyntheticObjective> synthetic;
  Objective* objective = &batch;
  if (options.config.has_synthetic()) {
    ASSIGN_OR_RETURN(
        SyntheticObjective made,
        SyntheticObjective::Create(&space, options.seed, options.config.synthetic().condition(),
                                   options.config.l2()));
    objective = &synthetic.emplace(std::move(made));
  }

  ASSIGN_OR_RETURN(const MinimizerOptions minimizer, MakeMinimizerOptions(options.config));
  std::unique_ptr<Direction> direction = MakeDirection(options.config, &space);
  std::string reason;
  {
    ASSIGN_OR_RETURN(const MinimizerResult result,
                     Minimize(&space, objective, direction.get(), minimizer, std::move(start),
                              [&](const IterationReport& report) {
                                return observe(report, batch.overflows());
                              }));
    reason = std::string(EndReasonName(result.reason));
  }
  // The parameters hold the result; the vectors' memory is for other jobs.
  direction.reset();
  synthetic.reset();
  RETURN_IF_ERROR(space.Flush());
  return reason;
}

}  // namespace monsoon
