// Objective: the function that a batch job minimises, evaluated over the whole
// batch. The driver knows it only through named vectors of a VectorSpace.
#pragma once

#include <string>

#include "common/base/status.h"

namespace monsoon {

struct ObjectiveValue {
  // F at the point, the L2 term included; +infinity when not `finite`.
  double f = 0.0;
  // False when the loss or a gradient element is NaN or infinite. That is a
  // result, not an error: the line search takes a shorter step.
  bool finite = false;
};

class Objective {
 public:
  virtual ~Objective() = default;

  // Evaluates F at vector `w` and makes its gradient, L2 term included, as the
  // new vector `gradient_out`; makes none when the evaluation is not finite.
  // Blocks until the whole batch is done. Any error ends the run and is passed
  // on (Cancelled when the job is cancelled).
  virtual absl::StatusOr<ObjectiveValue> Evaluate(const std::string& w,
                                                  const std::string& gradient_out) = 0;
};

}  // namespace monsoon
