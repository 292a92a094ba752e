// Nonlinear conjugate gradient, Polak-Ribiere-Plus (Gilbert and Nocedal 1992):
//
//   d = -g + beta d_old,   beta = max(0, g . (g - g_old) / |g_old|^2),
//
// with Powell's restart from -g when |g . g_old| >= 0.2 |g|^2 or d would not
// descend. It needs a line search close to exact: c2 is at most 0.1. The first
// step of a search is the one that the last search's decrease to first order
// suggests, step_old * (g_old . d_old) / (g . d) (Nocedal and Wright, 3.5).
//
// Rounds per direction: 2 (g . g_old; the combination with its g . d).
#pragma once

#include "coordinator/lbfgs/direction.h"

namespace monsoon {

class ConjugateGradient : public Direction {
 public:
  // `space` must outlive it.
  explicit ConjugateGradient(VectorSpace* space) : space_(space) {}

  absl::StatusOr<SearchDirection> Next(std::optional<Move> move, const Point& at) override;
  void Reset() override {}
  double CurvatureConstant(double c2) const override;

 private:
  VectorSpace* space_;
};

}  // namespace monsoon
