#include "coordinator/lbfgs/lbfgs_direction.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace monsoon {

absl::Status LbfgsDirection::AddPair(Move move, const Point& at) {
  // What is let go here leaves with the next operation, so that few vectors live
  // at once.
  move.along.d.Reset();
  OwnedVector s = OwnedVector::New(space_, "s");
  OwnedVector y = OwnedVector::New(space_, "y");
  const std::string old_w = move.from.w.name();
  const std::string old_g = move.from.g.name();
  move.from.w.Reset();
  RETURN_IF_ERROR(space_->Axpy(s.name(), -1.0, old_w, at.w.name()));
  move.from.g.Reset();
  RETURN_IF_ERROR(space_->Axpy(y.name(), -1.0, old_g, at.g.name()));
  std::vector<std::string> columns = history_.Basis();
  columns.push_back(s.name());
  columns.push_back(y.name());
  ASSIGN_OR_RETURN(const std::vector<double> dots, space_->Gram({y.name(), at.g.name()}, columns));
  history_.Add(std::move(s), std::move(y), dots);
  return absl::OkStatus();
}

absl::StatusOr<SearchDirection> LbfgsDirection::Next(std::optional<Move> move, const Point& at) {
  if (move.has_value()) {
    RETURN_IF_ERROR(AddPair(*std::move(move), at));
  }
  if (history_.empty()) {
    return SteepestDescent(space_, at);
  }
  SearchDirection direction{.d = OwnedVector::New(space_, "d")};
  ASSIGN_OR_RETURN(
      const std::vector<double> dots,
      space_->Combine(direction.d.name(), history_.Direction(at.g.name()), {at.g.name()}));
  direction.g_dot_d = dots[0];
  return direction;
}

}  // namespace monsoon
