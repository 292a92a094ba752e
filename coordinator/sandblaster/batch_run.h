// RunBatch: a Sandblaster job from its parameters to its end, in the calling
// thread (Dean et al. 2012, section 4.2). Wires the minimiser to the job's
// shards and replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/lbfgs/minimizer.h"
#include "coordinator/lbfgs/objective.h"
#include "coordinator/lbfgs/scaled_variables.h"
#include "coordinator/lbfgs/vector_space.h"
#include "coordinator/sandblaster/batch_evaluator.h"
#include "coordinator/sandblaster/vector_shards.h"
#include "proto/job.pb.h"
#include "proto/minimizer.pb.h"

namespace monsoon {

struct BatchRunOptions {
  Sandblaster config;
  uint32_t contributions = 0;  // of a whole batch
  std::vector<TensorRange> tensors;
  // How often the batch has returned to an earlier iteration, and the one that it goes on
  // from: its vectors are on the shards. Unset: it begins.
  uint64_t attempt = 0;
  std::optional<MinimizerState> from;
};

// Minimises from the job's parameters and publishes each accepted point there.
// `observe` also gets the evaluations that were repeated because sums did not fit
// their range, and `report.state` with them; false from it ends the run as
// target_reached.
// Blocks all the while; returns soon after `shards` or `evaluator` say CANCELLED.
absl::StatusOr<BatchEnd> RunBatch(
    const BatchRunOptions& options, VectorShards* shards, BatchEvaluator* evaluator,
    const std::function<absl::StatusOr<bool>(const IterationReport&, uint64_t overflows)>& observe);

// The same with any objective over `space`; `from` may be null. Without `tensors` the end is as
// the directions have it.
absl::StatusOr<BatchEnd> RunMinimizer(const Sandblaster& config,
                                      const std::vector<TensorRange>& tensors,
                                      const MinimizerState* from, VectorSpace* space,
                                      Objective* objective, const IterationObserver& observe);

}  // namespace monsoon
