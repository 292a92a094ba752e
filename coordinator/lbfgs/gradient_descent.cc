#include "coordinator/lbfgs/gradient_descent.h"

namespace monsoon {

absl::StatusOr<SearchDirection> GradientDescent::Next(std::optional<Move> move, const Point& at) {
  ASSIGN_OR_RETURN(SearchDirection direction, SteepestDescent(space_, at));
  if (move.has_value()) {
    direction.first_step = move->step * move->along.g_dot_d / direction.g_dot_d;
    direction.fresh = false;
  }
  return direction;
}

}  // namespace monsoon
