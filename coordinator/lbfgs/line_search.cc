#include "coordinator/lbfgs/line_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace monsoon {
namespace {

// MINPACK-2's constants: how far an unbracketed search extrapolates, and by how
// much an interval must shrink in two steps.
constexpr double kExtrapolateLower = 1.1;
constexpr double kExtrapolateUpper = 4.0;
constexpr double kRequiredShrink = 0.66;
// A step with a non-finite value is cut to this part of the way to it: large
// enough to keep most of a good step, and 20 evaluations still reach 1e-12.
constexpr double kNonFiniteShrink = 0.25;
// A failed search counts as at the floor when at most this many times the floor
// could have been gained.
constexpr double kFloorMargin = 10.0;

// What the minimiser of the cubic with the values and slopes of two points is made
// of, by the names of dcstep.
struct Cubic {
  double theta;
  double gamma;
};

Cubic Interpolate(const LinePoint& a, const LinePoint& b) {
  const double theta = 3.0 * (a.f - b.f) / (b.step - a.step) + a.slope + b.slope;
  const double scale = std::max({std::abs(theta), std::abs(a.slope), std::abs(b.slope)});
  const double ratio = theta / scale;
  const double square = ratio * ratio - (a.slope / scale) * (b.slope / scale);
  // Negative only by rounding, or where the cubic has no minimiser (case 3).
  return {theta, scale * std::sqrt(std::max(0.0, square))};
}

// Minimiser of the quadratic with the slopes of a and t, seen from t.
double Secant(const LinePoint& a, const LinePoint& t) {
  return t.step + (t.slope / (t.slope - a.slope)) * (a.step - t.step);
}

// Case 1: phi is higher at t; a minimiser is bracketed.
double HigherValue(const LinePoint& x, const LinePoint& t) {
  auto [theta, gamma] = Interpolate(x, t);
  gamma = t.step < x.step ? -gamma : gamma;
  const double r = (gamma - x.slope + theta) / (gamma - x.slope + gamma + t.slope);
  const double cubic = x.step + r * (t.step - x.step);
  const double quadratic =
      x.step + x.slope / ((x.f - t.f) / (t.step - x.step) + x.slope) / 2.0 * (t.step - x.step);
  if (std::abs(cubic - x.step) < std::abs(quadratic - x.step)) {
    return cubic;
  }
  return cubic + (quadratic - cubic) / 2.0;
}

// Case 2: lower, slopes of opposite sign; a minimiser is bracketed.
double OppositeSlopes(const LinePoint& x, const LinePoint& t) {
  auto [theta, gamma] = Interpolate(x, t);
  gamma = t.step > x.step ? -gamma : gamma;
  const double r = (gamma - t.slope + theta) / (gamma - t.slope + gamma + x.slope);
  const double cubic = t.step + r * (x.step - t.step);
  const double quadratic = Secant(x, t);
  return std::abs(cubic - t.step) > std::abs(quadratic - t.step) ? cubic : quadratic;
}

// Case 3: lower, same sign, flatter slope. The cubic counts only where it goes to
// infinity along the step or its minimiser lies beyond t.
double FlatterSlope(const LinePoint& x, const LinePoint& y, const LinePoint& t, bool bracketed,
                    double lower, double upper) {
  auto [theta, gamma] = Interpolate(x, t);
  gamma = t.step > x.step ? -gamma : gamma;
  const double r = (gamma - t.slope + theta) / (gamma + (x.slope - t.slope) + gamma);
  double cubic;
  if (r < 0.0 && gamma != 0.0) {
    cubic = t.step + r * (x.step - t.step);
  } else {
    cubic = t.step > x.step ? upper : lower;
  }
  const double quadratic = Secant(x, t);
  const bool cubic_is_closer = std::abs(cubic - t.step) < std::abs(quadratic - t.step);
  if (bracketed) {
    const double next = cubic_is_closer ? cubic : quadratic;
    const double limit = t.step + kRequiredShrink * (y.step - t.step);
    return t.step > x.step ? std::min(limit, next) : std::max(limit, next);
  }
  return std::clamp(cubic_is_closer ? quadratic : cubic, lower, upper);
}

// Case 4: lower, same sign, slope not flatter.
double SteeperSlope(const LinePoint& x, const LinePoint& y, const LinePoint& t, bool bracketed,
                    double lower, double upper) {
  if (!bracketed) {
    return t.step > x.step ? upper : lower;
  }
  auto [theta, gamma] = Interpolate(t, y);
  gamma = t.step > y.step ? -gamma : gamma;
  const double r = (gamma - t.slope + theta) / (gamma - t.slope + gamma + y.slope);
  return t.step + r * (y.step - t.step);
}

}  // namespace

double SafeguardedStep(LinePoint* x, LinePoint* y, const LinePoint& t, bool* bracketed,
                       double lower, double upper) {
  const bool opposite = t.slope * (x->slope / std::abs(x->slope)) < 0.0;
  double next;
  if (t.f > x->f) {
    next = HigherValue(*x, t);
    *bracketed = true;
  } else if (opposite) {
    next = OppositeSlopes(*x, t);
    *bracketed = true;
  } else if (std::abs(t.slope) < std::abs(x->slope)) {
    next = FlatterSlope(*x, *y, t, *bracketed, lower, upper);
  } else {
    next = SteeperSlope(*x, *y, t, *bracketed, lower, upper);
  }
  if (t.f > x->f) {
    *y = t;
  } else {
    if (opposite) {
      *y = *x;
    }
    *x = t;
  }
  return next;
}

MoreThuenteSearch::MoreThuenteSearch(const LineSearchOptions& options, double f0, double slope0,
                                     double first_step)
    : options_(options),
      f0_(f0),
      slope0_(slope0),
      step_(std::clamp(first_step, options.min_step, options.max_step)),
      x_{0.0, f0, slope0},
      y_(x_),
      upper_(step_ + kExtrapolateUpper * step_),
      width_(options.max_step - options.min_step),
      previous_width_(2.0 * width_),
      non_finite_from_(std::numeric_limits<double>::infinity()),
      promised_decrease_(std::numeric_limits<double>::infinity()) {
  CHECK(std::isfinite(f0));
  CHECK_LT(slope0, 0.0);
  CHECK_GT(first_step, 0.0);
}

MoreThuenteSearch::Verdict MoreThuenteSearch::Fail(absl::string_view why) {
  failure_ = why;
  return Verdict::kFailed;
}

MoreThuenteSearch::Verdict MoreThuenteSearch::Report(double f, double slope) {
  ++evaluations_;
  if (!std::isfinite(f) || !std::isfinite(slope)) {
    non_finite_from_ = std::min(non_finite_from_, step_);
    ShrinkBelowNonFinite();
    if (evaluations_ >= options_.max_evaluations) {
      return Fail("no step in the allowed number of evaluations");
    }
    return step_ < options_.min_step ? Fail("not finite at the smallest step") : Verdict::kEvaluate;
  }
  if (slope > 0.5 * slope0_) {
    const double curvature = (slope - slope0_) / step_;
    promised_decrease_ = std::min(promised_decrease_, slope0_ * slope0_ / (2.0 * curvature));
  }
  const double ftest = f0_ + step_ * options_.c1 * slope0_;
  if (f <= ftest && std::abs(slope) <= options_.c2 * -slope0_) {
    return Verdict::kAccepted;
  }
  if (std::abs(f - f0_) <= options_.f_floor * std::abs(f0_) &&
      slope <= (2.0 * options_.c1 - 1.0) * slope0_ && slope >= options_.c2 * slope0_) {
    approximate_ = true;
    return Verdict::kAccepted;
  }
  if (step_ >= options_.max_step && f <= ftest && slope <= options_.c1 * slope0_) {
    return Fail("still descending at the largest step");
  }
  if (step_ <= options_.min_step && (f > ftest || slope >= options_.c1 * slope0_)) {
    return Fail("no decrease at the smallest step");
  }
  if (evaluations_ >= options_.max_evaluations) {
    return Fail("no step in the allowed number of evaluations");
  }
  return Continue({step_, f, slope});
}

MoreThuenteSearch::Verdict MoreThuenteSearch::Continue(const LinePoint& t) {
  const double ftest = f0_ + t.step * options_.c1 * slope0_;
  if (first_stage_ && t.f <= ftest && t.slope >= 0.0) {
    first_stage_ = false;
  }
  UpdateInterval(t, ftest);
  if (bracketed_) {
    const double width = std::abs(y_.step - x_.step);
    if (width >= kRequiredShrink * previous_width_) {
      step_ = x_.step + 0.5 * (y_.step - x_.step);
    }
    previous_width_ = std::exchange(width_, width);
    lower_ = std::min(x_.step, y_.step);
    upper_ = std::max(x_.step, y_.step);
  } else {
    lower_ = step_ + kExtrapolateLower * (step_ - x_.step);
    upper_ = step_ + kExtrapolateUpper * (step_ - x_.step);
  }
  step_ = std::clamp(step_, options_.min_step, options_.max_step);
  if (bracketed_ && (step_ <= lower_ || step_ >= upper_ || !std::isfinite(step_))) {
    return Fail("rounding errors prevent progress");
  }
  if (bracketed_ && upper_ - lower_ <= options_.x_tolerance * upper_) {
    return Fail("the interval of uncertainty is too narrow");
  }
  if (step_ >= non_finite_from_) {
    ShrinkBelowNonFinite();
  }
  return Verdict::kEvaluate;
}

void MoreThuenteSearch::UpdateInterval(const LinePoint& t, double ftest) {
  if (!first_stage_ || t.f > x_.f || t.f <= ftest) {
    step_ = SafeguardedStep(&x_, &y_, t, &bracketed_, lower_, upper_);
    return;
  }
  // A lower value, but no sufficient decrease: work on psi.
  const double tilt = options_.c1 * slope0_;
  const auto modified = [tilt](const LinePoint& p) {
    return LinePoint{p.step, p.f - p.step * tilt, p.slope - tilt};
  };
  const auto restored = [tilt](const LinePoint& p) {
    return LinePoint{p.step, p.f + p.step * tilt, p.slope + tilt};
  };
  LinePoint x = modified(x_);
  LinePoint y = modified(y_);
  step_ = SafeguardedStep(&x, &y, modified(t), &bracketed_, lower_, upper_);
  x_ = restored(x);
  y_ = restored(y);
}

void MoreThuenteSearch::ShrinkBelowNonFinite() {
  step_ = x_.step + kNonFiniteShrink * (non_finite_from_ - x_.step);
}

bool MoreThuenteSearch::at_floor() const {
  return promised_decrease_ <= kFloorMargin * options_.f_floor * std::abs(f0_);
}

}  // namespace monsoon
