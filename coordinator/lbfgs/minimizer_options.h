// What a minimisation is asked for, and the names of its ends.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/lbfgs/line_search.h"
#include "coordinator/lbfgs/progress.h"
#include "coordinator/lbfgs/scaled_variables.h"

namespace monsoon {

struct MinimizerOptions {
  uint32_t max_iterations = 100;
  Tolerances tolerances;
  // f_floor 0: twice the space's unit roundoff (1.2e-7 for float32).
  LineSearchOptions line_search;
  // Of the vector, in its order: each is tried alone before a run ends as it cannot go on, or has
  // converged. Empty: none is.
  std::vector<TensorRange> tensors;
  // The function may have no minimum, such as a loss of separable data without l2: the end tells.
  bool may_be_unbounded = false;
};

// InvalidArgument names the option out of range.
absl::Status ValidateMinimizerOptions(const MinimizerOptions& options);

enum class EndReason {
  kConverged,
  kFloatPrecision,
  kStalled,
  kMaxIterations,
  kLineSearchFailed,
  kTargetReached,
};

// "converged", "float32_precision", "stalled", "max_iterations",
// "line_search_failed", "target_reached".
absl::string_view EndReasonName(EndReason reason);

}  // namespace monsoon
