// Progress: tells from the figures of a minimisation whether it has converged, and
// what to call its end when it cannot go on.
//
// Its measure of what is left to gain is the decrease that the directions promise:
// -step g.d / 2, which for a quadratic and Newton's direction is F - F*. One direction
// of limited memory may promise far too little (on ill-conditioned problems by 10^5,
// measured), so many in a row must; and since slopes are sums in double of float32
// gradients, promises fall far below the noise of F, which therefore decides nothing
// here but how large a change of F is one.
//
// A pure state machine. Not thread safe.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "proto/minimizer.pb.h"

namespace monsoon {

// Each ends a run as converged, besides the promises; 0: not asked for.
struct Tolerances {
  double gradient = 0.0;           // |g| <= gradient * max(1, |w|)
  double relative_gradient = 0.0;  // |g| <= relative_gradient * |g at the start|
  double f = 0.0;                  // F fell by at most f |F| in kWindow iterations
};

class Progress {
 public:
  // Promises that must be small in a row, and iterations over which F is compared.
  static constexpr size_t kWindow = 10;
  // Iterations in which neither F, |g| nor the promise became better: it has stalled.
  static constexpr uint32_t kStalled = 100;
  // Where the minimum is 0, nothing is small relative to F; this part of F at the start is small
  // enough.
  static constexpr double kNegligible = 1e-12;

  // `roundoff_floor`: a relative change of F that rounding alone explains.
  Progress(const Tolerances& tolerances, double roundoff_floor)
      : tolerances_(tolerances), floor_(roundoff_floor), roundoff_floor_(roundoff_floor) {}

  // The start, then each accepted point.
  void AddPoint(double f, double gradient_norm, double w_norm);
  // What the direction at the newest point promises; nothing for one that was made
  // without knowledge of the curvature.
  void AddPromise(std::optional<double> decrease);
  // The newest point was found by other means than these directions: what they promised, and
  // how far F fell, counts from here.
  void BeginAnew();
  // The measured noise of F at the newest point.
  void NoteNoise(double noise);

  // A relative change of F that is noise: from the arithmetic, or as measured.
  double f_floor() const { return floor_; }
  // From the newest point to `f` it falls by more than noise.
  bool Falls(double f) const { return IsLower(f, f_.back()); }
  // A fall of F that slopes tell is too much for a run that has converged.
  bool IsWorth(double fall) const;
  // `f` is lower than `before`, by more than noise.
  bool IsLower(double f, double before) const { return before - f > floor_ * scale(); }
  // `f` is at most this part of F at the start.
  bool IsBelow(double f, double part) const { return f <= part * std::abs(first_f_); }
  // Of the parameters, at the newest point.
  double gradient_norm() const { return gradient_norm_; }

  // By a tolerance, or since the gradient is zero.
  bool within_tolerance() const;
  // By that, or by the promises.
  bool converged() const;
  bool stalled() const { return idle_ >= kStalled; }
  // The newest directions promise less than F can tell, and almost nothing.
  bool at_float_precision() const;
  // They promise less than F can tell.
  bool below_noise() const;

  // All that it knows but the tolerances; one with the same goes on from there.
  ProgressState Save() const;
  void Restore(const ProgressState& state);

  // "F 0.0791, |g| 2.4e-02, noise of F 3e-07 (relative), the last directions
  // promised up to 8.8e-06 of F".
  std::string Figures() const;

 private:
  // The largest of the `count` newest promises, relative to F; nothing if fewer.
  std::optional<double> Largest(size_t count) const;
  // F fell by no more than this part of it in the window.
  bool FellByAtMost(double relative) const;
  double scale() const;

  const Tolerances tolerances_;
  double floor_;
  const double roundoff_floor_;
  std::optional<double> noise_;  // relative, as measured
  double first_f_ = 0.0;
  double first_gradient_ = 0.0;
  double gradient_norm_ = 0.0;
  double w_norm_ = 0.0;
  std::deque<double> f_;         // newest last, at most kWindow + 1
  std::deque<double> promises_;  // newest last, at most kWindow
  double best_f_ = 0.0;
  double best_gradient_ = 0.0;
  std::optional<double> best_promise_;
  uint32_t idle_ = 0;
};

}  // namespace monsoon
