// Minimize: the driver of a batch job (Dean et al. 2012, section 4.2). It finds a
// minimiser of an objective by a strategy's directions and a strong Wolfe line
// search, over a vector space that it never looks into: local arrays or shards,
// the same code. Its memory does not depend on the length of a vector.
//
// Cost in round trips of the space, apart from the objective's: L-BFGS and nonlinear
// conjugate gradient 2 an iteration, gradient descent 1. What answers nothing (the
// trial point, publish, s and y) rides with what does, and so do vectors that are
// freed. At most 2 * history + 6 vectors live at once: w, g, two trial or older ones,
// the direction, the pairs and a new one; in scaled variables 4 more, and at least 15 while parts
// are tried, without a history.
//
// A run is a function of the space's and the objective's answers: same answers,
// same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/lbfgs/direction.h"
#include "coordinator/lbfgs/minimizer_options.h"
#include "coordinator/lbfgs/objective.h"
#include "coordinator/lbfgs/vector_space.h"
#include "proto/minimizer.pb.h"

namespace monsoon {

// An accepted point. Iteration 0 is the start, with step_length 0.
struct IterationReport {
  uint32_t iteration = 0;
  double f = 0.0;
  double gradient_norm = 0.0;
  double step_length = 0.0;
  // Of the objective so far.
  uint64_t evaluations = 0;
  uint64_t round_trips = 0;
  // The accepted point, already published. Lives during the call. "" where the run goes on in
  // scaled variables.
  std::string w;
  // What Continue goes on from; to be asked for during the call. All that was asked of the
  // space has been done.
  std::function<MinimizerState()> state;
};

// False ends the run as target_reached; an error ends it and is passed on.
using IterationObserver = std::function<absl::StatusOr<bool>(const IterationReport&)>;

struct MinimizerResult {
  EndReason reason = EndReason::kConverged;
  // The figures behind the reason, and what may help where it is no success.
  std::string detail;
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
  // Times that the noise of F was measured.
  uint32_t noise_measurements = 0;
  // The last failed line search, in words; for logs.
  std::string line_search_failure;
};

// Minimises `objective` from the vector `start`, which it takes over, and
// publishes each accepted point. Ends as
//  - converged: by the tolerances, or because the directions promise almost nothing
//    (progress.h);
//  - float32_precision: it cannot go on, and the directions promise less than F in
//    the space's precision can tell, and almost nothing;
//  - stalled: it cannot go on, but they promise more than that: rounding hides what is
//    left to gain;
//  - line_search_failed: also from -g without history, although more than the noise
//    of F was promised: F and its gradient disagree;
//  - max_iterations, or target_reached when the observer says so.
// It cannot go on when a line search failed along -g too, or when nothing became
// better for long. Where a line search fails, the noise of F along its direction is
// measured first, by 6 evaluations close to the point, and the search repeated with
// what is a change of F now.
// FailedPrecondition when the objective is not finite at `start`; errors of the
// space, the objective and the observer (which may be empty) are passed on.
// Blocks all the while.
absl::StatusOr<MinimizerResult> Minimize(VectorSpace* space, Objective* objective,
                                         Direction* direction, const MinimizerOptions& options,
                                         OwnedVector start, const IterationObserver& observer);

// The vectors that the state names: g, the direction and the history.
std::vector<std::string> VectorsOf(const MinimizerState& state);

// Goes on after the report that `state` is from, whose vectors `space` has, and the point
// as `w`: the rest of the run has the same bits as without the break. `space` and
// `direction` are new, of the same kind and options. InvalidArgument for a state that no
// run with these had; else as Minimize.
absl::StatusOr<MinimizerResult> Continue(VectorSpace* space, Objective* objective,
                                         Direction* direction, const MinimizerOptions& options,
                                         const MinimizerState& state, OwnedVector w,
                                         const IterationObserver& observer);

}  // namespace monsoon
