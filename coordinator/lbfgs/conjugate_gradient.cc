#include "coordinator/lbfgs/conjugate_gradient.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace monsoon {
namespace {

constexpr double kMaxC2 = 0.1;
// Powell's restart: successive gradients are far from orthogonal.
constexpr double kRestart = 0.2;

}  // namespace

double ConjugateGradient::CurvatureConstant(double c2) const { return std::min(c2, kMaxC2); }

absl::StatusOr<SearchDirection> ConjugateGradient::Next(std::optional<Move> move, const Point& at) {
  if (!move.has_value()) {
    return SteepestDescent(space_, at);
  }
  const SearchDirection& old = move->along;
  ASSIGN_OR_RETURN(const double g_dot_old_g, space_->Dot(at.g.name(), move->from.g.name()));
  const double beta = std::max(0.0, (at.g_dot_g - g_dot_old_g) / move->from.g_dot_g);
  if (beta > 0.0 && std::isfinite(beta) && std::abs(g_dot_old_g) < kRestart * at.g_dot_g) {
    SearchDirection direction{.d = OwnedVector::New(space_, "d")};
    ASSIGN_OR_RETURN(const std::vector<double> dots,
                     space_->Combine(direction.d.name(),
                                     {{-1.0, at.g.name()}, {beta, old.d.name()}}, {at.g.name()}));
    if (dots[0] < 0.0) {
      direction.g_dot_d = dots[0];
      direction.first_step = move->step * old.g_dot_d / dots[0];
      return direction;
    }
  }
  ASSIGN_OR_RETURN(SearchDirection direction, SteepestDescent(space_, at));
  direction.first_step = move->step * old.g_dot_d / direction.g_dot_d;
  direction.fresh = false;
  return direction;
}

}  // namespace monsoon
