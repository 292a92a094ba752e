// Minimize: the driver of a batch job (Dean et al. 2012, section 4.2). It finds a
// minimiser of an objective by a strategy's directions and a strong Wolfe line
// search, over a vector space that it never looks into: local arrays or shards,
// the same code. Its memory does not depend on the length of a vector.
//
// Cost in round trips of the space, apart from the objective's own:
//   per evaluation    2   the trial point; its dot products (g.d, g.g, w.w)
//   per iteration     1   publish, and the strategy's (L-BFGS 4, nonlinear
//                         conjugate gradient 2, gradient descent 1)
// so an L-BFGS iteration whose first step is accepted costs 7. Vectors are freed
// with later operations and cost none. At most 2 * history + 6 vectors live at
// once: w, g, two trial or older ones, the direction, the pairs and a new one.
//
// A run is a function of the space's and the objective's answers: same answers,
// same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "coordinator/lbfgs/direction.h"
#include "coordinator/lbfgs/line_search.h"
#include "coordinator/lbfgs/objective.h"
#include "coordinator/lbfgs/vector_space.h"

namespace monsoon {

struct MinimizerOptions {
  uint32_t max_iterations = 100;
  // Converged when |g| <= gradient_tolerance * max(1, |w|).
  double gradient_tolerance = 1e-5;
  // f_floor 0: twice the space's unit roundoff (1.2e-7 for float32).
  LineSearchOptions line_search;
};

// InvalidArgument names the option out of range.
absl::Status ValidateMinimizerOptions(const MinimizerOptions& options);

// An accepted point. Iteration 0 is the start, with step_length 0.
struct IterationReport {
  uint32_t iteration = 0;
  double f = 0.0;
  double gradient_norm = 0.0;
  double step_length = 0.0;
  // Of the objective so far.
  uint64_t evaluations = 0;
  uint64_t round_trips = 0;
  // The accepted point, already published. Lives during the call.
  std::string w;
};

// An error ends the run and is passed on.
using IterationObserver = std::function<absl::Status(const IterationReport&)>;

enum class EndReason { kConverged, kFloatPrecision, kMaxIterations, kLineSearchFailed };

// "converged", "converged: float32 precision", "max iterations", "line search
// failed".
absl::string_view EndReasonName(EndReason reason);

struct MinimizerResult {
  EndReason reason = EndReason::kConverged;
  // The last accepted point.
  OwnedVector w;
  double f = 0.0;
  double gradient_norm = 0.0;
  uint32_t iterations = 0;
  uint64_t evaluations = 0;
  // Line searches that failed and were repeated from -g.
  uint32_t restarts = 0;
  // Of the space, the objective's among them.
  uint64_t round_trips = 0;
  // The last failed line search, in words; for logs.
  std::string line_search_failure;
};

// Minimises `objective` from the vector `start`, which it takes over, and
// publishes each accepted point. Ends as
//  - converged: the gradient is small;
//  - float32 precision: iterations in a row changed f by no more than f_floor |f|,
//    five where |g| stalled too and 20 in any case, or a line search failed where
//    only such a change was left to gain. For a space of doubles the floor is that
//    of doubles;
//  - line search failed: also from -g, without history.
// FailedPrecondition when the objective is not finite at `start`; errors of the
// space, the objective and the observer (which may be empty) are passed on.
// Blocks all the while.
absl::StatusOr<MinimizerResult> Minimize(VectorSpace* space, Objective* objective,
                                         Direction* direction, const MinimizerOptions& options,
                                         OwnedVector start, const IterationObserver& observer);

}  // namespace monsoon
