#include "coordinator/lbfgs/direction.h"

#include <cmath>

namespace monsoon {

absl::Status Direction::Restore(const MinimizerState& state) {
  return state.pair().empty()
             ? absl::OkStatus()
             : absl::InvalidArgumentError("a history for an algorithm that has none");
}

absl::StatusOr<SearchDirection> SteepestDescent(VectorSpace* space, const Point& at) {
  SearchDirection direction{.d = OwnedVector::New(space, "d"),
                            .g_dot_d = -at.g_dot_g,
                            .first_step = 1.0 / std::sqrt(at.g_dot_g),
                            .fresh = true};
  RETURN_IF_ERROR(space->Scale(direction.d.name(), -1.0, at.g.name()));
  return direction;
}

}  // namespace monsoon
