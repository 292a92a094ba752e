// Line search for the strong Wolfe conditions (More and Thuente, "Line Search
// Algorithms with Guaranteed Sufficient Decrease", ACM TOMS 20(3), 1994), as
// dcsrch and dcstep of MINPACK-2 do it. With phi(step) = F(w + step * d) it looks
// for a step with
//
//   sufficient decrease   phi(step) <= phi(0) + c1 * step * phi'(0)     (ftol, mu)
//   curvature             |phi'(step)| <= c2 * |phi'(0)|                (gtol, eta)
//
// Two additions:
//  - Near the floor of the arithmetic, where |phi(step) - phi(0)| <= f_floor *
//    |phi(0)| and phi is mostly rounding, the approximate Wolfe conditions of
//    Hager and Zhang (SIAM J. Optim. 16(1), 2005) decide by slopes alone:
//    (2 c1 - 1) phi'(0) >= phi'(step) >= c2 phi'(0).
//  - A step where phi is not finite is an upper bound that later steps stay
//    below.
//
// A plain state machine on scalars: it evaluates nothing. Not thread safe.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace monsoon {

struct LineSearchOptions {
  // 0 < c1 <= c2 < 1 and c1 < 1/2.
  double c1 = 1e-4;
  double c2 = 0.9;
  uint32_t max_evaluations = 20;
  // Relative size of a change of phi that is rounding.
  double f_floor = 0.0;
  double min_step = 1e-20;
  double max_step = 1e20;
  // Relative width of the interval of uncertainty at which it gives up.
  double x_tolerance = 1e-16;
};

// A point of the search: step length, phi, phi'.
struct LinePoint {
  double step = 0.0;
  double f = 0.0;
  double slope = 0.0;
};

// dcstep: the next step from the interval of uncertainty between `x` (its best
// point) and `y`, and the trial point `t`; updates x, y and `bracketed`, the
// latter once a minimiser lies between x and y. The step stays within
// [lower, upper]. x.slope != 0 and t.step != x.step.
double SafeguardedStep(LinePoint* x, LinePoint* y, const LinePoint& t, bool* bracketed,
                       double lower, double upper);

class MoreThuenteSearch {
 public:
  enum class Verdict {
    // Evaluate at step() and report.
    kEvaluate,
    // step() satisfies the conditions.
    kAccepted,
    // failure() says why there is no such step.
    kFailed,
  };

  // `f0` = phi(0), finite; `slope0` = phi'(0) < 0; `first_step` > 0.
  MoreThuenteSearch(const LineSearchOptions& options, double f0, double slope0, double first_step);

  double step() const { return step_; }
  // The values at step(); `f` or `slope` may be infinite or NaN.
  Verdict Report(double f, double slope);

  uint32_t evaluations() const { return evaluations_; }
  // The approximate conditions accepted the step, not the strong ones.
  bool accepted_approximately() const { return approximate_; }
  absl::string_view failure() const { return failure_; }
  // True when the slopes seen promise a decrease that is only rounding of f: the
  // search failed because it started at the floor, not because of the objective.
  bool at_floor() const;

 private:
  Verdict Fail(absl::string_view why);
  // Narrows the interval by the point t, and sets the next step.
  Verdict Continue(const LinePoint& t);
  void UpdateInterval(const LinePoint& t, double ftest);
  void ShrinkBelowNonFinite();

  LineSearchOptions options_;
  double f0_;
  double slope0_;
  double step_;
  LinePoint x_;
  LinePoint y_;
  bool bracketed_ = false;
  // Until a step with sufficient decrease and slope >= 0, the auxiliary function
  // psi(step) = phi(step) - phi(0) - c1 step phi'(0) guides the search.
  bool first_stage_ = true;
  double lower_ = 0.0;
  double upper_;
  double width_;
  double previous_width_;
  // The smallest step with a phi that is not finite.
  double non_finite_from_;
  // The smallest decrease that the secant of the slopes promised, of steps whose
  // slope rose enough to tell.
  double promised_decrease_;
  uint32_t evaluations_ = 0;
  bool approximate_ = false;
  absl::string_view failure_;
};

}  // namespace monsoon
