// Direction: where a minimisation algorithm goes next. One strategy per
// algorithm (L-BFGS, nonlinear conjugate gradient, gradient descent); the line
// search and the driver are common to all.
#pragma once

#include <optional>

#include "coordinator/lbfgs/vector_space.h"
#include "proto/minimizer.pb.h"

namespace monsoon {

// A point with its gradient, and what is known of both.
struct Point {
  OwnedVector w;
  OwnedVector g;
  double f = 0.0;
  double g_dot_g = 0.0;  // of the variables
  // These two are of the parameters, of which the vectors may be scaled variables.
  double w_dot_w = 0.0;
  double gradient_norm = 0.0;  // sqrt(g_dot_g) where nothing is scaled
};

struct SearchDirection {
  OwnedVector d;
  // phi'(0) of the line search.
  double g_dot_d = 0.0;
  // Where the line search begins, > 0.
  double first_step = 1.0;
  // What Next answers after Reset(): no use in trying that again.
  bool fresh = false;
};

// The accepted move that led to a point.
struct Move {
  Point from;
  SearchDirection along;
  double step = 0.0;
};

class Direction {
 public:
  virtual ~Direction() = default;

  // The direction at `at`, which `move` led to; nullopt at the first point and
  // after Reset(). A strategy that has nothing to build on answers -g with the
  // step 1/|g|. The answer may fail to descend (g_dot_d >= 0 or NaN, then
  // `d` may be empty): the driver resets. Blocks for the rounds that each strategy states.
  // at.g_dot_g > 0.
  virtual absl::StatusOr<SearchDirection> Next(std::optional<Move> move, const Point& at) = 0;

  // Forgets all earlier iterations.
  virtual void Reset() = 0;

  // What it builds on beside the newest point and direction; one that knows nothing yet
  // goes on from there. InvalidArgument for what Save does not write.
  virtual void Save(MinimizerState*) const {}
  virtual absl::Status Restore(const MinimizerState& state);

  // The curvature constant of the line search that suits the strategy, for the
  // one configured.
  virtual double CurvatureConstant(double c2) const { return c2; }
};

// -g with the first step 1/|g|. One round.
absl::StatusOr<SearchDirection> SteepestDescent(VectorSpace* space, const Point& at);

}  // namespace monsoon
