// RunBatch: a Sandblaster job from its parameters to its end, in the calling
// thread (Dean et al. 2012, section 4.2). Wires the minimiser to the job's
// shards and replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/batch/batch_board.h"
#include "coordinator/batch/vector_shards.h"
#include "coordinator/lbfgs/minimizer.h"
#include "proto/job.pb.h"

namespace monsoon {

struct BatchRunOptions {
  Sandblaster config;
  uint64_t seed = 0;
  uint32_t contributions = 0;  // of a whole batch; unused for a synthetic job
};

// Minimises from the job's parameters and publishes each accepted point there.
// `observe` also gets the evaluations that were repeated for an overflow.
// Blocks all the while; returns soon after `shards` or `board` say CANCELLED.
absl::StatusOr<std::string> RunBatch(
    const BatchRunOptions& options, VectorShards* shards, BatchBoard* board,
    const std::function<absl::Status(const IterationReport&, uint64_t overflows)>& observe);

}  // namespace monsoon
