// The algorithms of a job file's `sandblaster` and their options, by name.
#pragma once

#include <memory>

#include "coordinator/lbfgs/direction.h"
#include "coordinator/lbfgs/minimizer.h"
#include "proto/job.pb.h"

namespace monsoon {

// The strategy that `config.algorithm` names. `space` must outlive it.
std::unique_ptr<Direction> MakeDirection(const Sandblaster& config, VectorSpace* space);

// The options of `config`, with the defaults that job.proto states for what is
// unset. InvalidArgument names a value out of range.
absl::StatusOr<MinimizerOptions> MakeMinimizerOptions(const Sandblaster& config);

}  // namespace monsoon
