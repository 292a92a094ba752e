#include "coordinator/sandblaster/batch_run.h"

#include <memory>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "coordinator/lbfgs/algorithm.h"
#include "coordinator/sandblaster/batch_objective.h"
#include "coordinator/sandblaster/shard_vector_space.h"

namespace monsoon {
namespace {

// Evaluations of one attempt: more than any job makes.
constexpr int kEvaluationBits = 32;

}  // namespace

absl::StatusOr<BatchEnd> RunMinimizer(const Sandblaster& config,
                                      const std::vector<TensorRange>& tensors,
                                      const MinimizerState* from, VectorSpace* space,
                                      Objective* objective, const IterationObserver& observe) {
  if (from != nullptr) {
    space->CountOn(from->names(), from->round_trips());
  }
  OwnedVector w = OwnedVector::New(space, "w");
  RETURN_IF_ERROR(space->Copy(w.name(), ""));
  ASSIGN_OR_RETURN(MinimizerOptions options, MakeMinimizerOptions(config));
  options.tensors = tensors;
  options.may_be_unbounded = options.may_be_unbounded && !tensors.empty();
  const std::unique_ptr<Direction> direction = MakeDirection(config, space);
  ASSIGN_OR_RETURN(
      const MinimizerResult result,
      from == nullptr
          ? Minimize(space, objective, direction.get(), options, std::move(w), observe)
          : Continue(space, objective, direction.get(), options, *from, std::move(w), observe));
  return BatchEnd{std::string(EndReasonName(result.reason)), result.detail};
}

absl::StatusOr<BatchEnd> RunBatch(
    const BatchRunOptions& options, VectorShards* shards, BatchEvaluator* evaluator,
    const std::function<absl::StatusOr<bool>(const IterationReport&, uint64_t overflows)>&
        observe) {
  ShardVectorSpace space(shards);
  std::optional<BatchObjective> batch;
  batch.emplace(BatchObjective::Options{options.config.l2(), options.config.l2_weights_only(),
                                        options.contributions, options.attempt << kEvaluationBits},
                &space, evaluator);
  const MinimizerState* const from = options.from.has_value() ? &*options.from : nullptr;
  if (from != nullptr) {
    batch->GoOn(from->overflows());
  }
  ASSIGN_OR_RETURN(BatchEnd end, RunMinimizer(options.config, options.tensors, from, &space,
                                              &*batch, [&](const IterationReport& report) {
                                                return observe(report, batch->overflows());
                                              }));
  // The parameters hold the result; the vectors' memory is for other jobs.
  batch.reset();
  RETURN_IF_ERROR(space.Flush());
  return end;
}

}  // namespace monsoon
