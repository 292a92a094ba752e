// Gradient descent with line search: d = -g. The first step of a search is the
// one that the last search's decrease to first order suggests, as in
// conjugate_gradient.h. One round per direction.
#pragma once

#include "coordinator/lbfgs/direction.h"

namespace monsoon {

class GradientDescent : public Direction {
 public:
  // `space` must outlive it.
  explicit GradientDescent(VectorSpace* space) : space_(space) {}

  absl::StatusOr<SearchDirection> Next(std::optional<Move> move, const Point& at) override;
  void Reset() override {}

 private:
  VectorSpace* space_;
};

}  // namespace monsoon
