// Objective: the function that a batch job minimises, evaluated over the whole
// batch. The driver knows it only through named vectors of a VectorSpace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "coordinator/lbfgs/vector_space.h"

namespace monsoon {

struct ObjectiveValue {
  // F at the point, the L2 term included; +infinity when not `finite`.
  double f = 0.0;
  // False when the loss or a gradient element is NaN or infinite. That is a
  // result, not an error: the line search takes a shorter step.
  bool finite = false;
  // g . g, w . w and g . d; the last one is 0 without a direction d. A product may
  // overflow where f does not.
  double g_dot_g = 0.0;
  double w_dot_w = 0.0;
  double g_dot_d = 0.0;
  // g . g of the parameters, where `w` and g are scaled variables of theirs (ScaledObjective);
  // w_dot_w is of the parameters always.
  std::optional<double> unscaled_g_dot_g;
};

class Objective {
 public:
  virtual ~Objective() = default;

  // Evaluates F at vector `w` and makes its gradient g, L2 term included, as the
  // new vector `gradient_out`; makes none when the evaluation is not finite.
  // `along` names the line search's direction d, or is empty.
  // Blocks until the whole batch is done. Any error ends the run and is passed
  // on (Cancelled when the job is cancelled).
  virtual absl::StatusOr<ObjectiveValue> Evaluate(const std::string& w,
                                                  const std::string& gradient_out,
                                                  const std::string& along) = 0;
};

// The products of ObjectiveValue as one operation: to be asked for, and read from its
// scalars; Internal when they are not as many.
VectorGram PointProducts(const std::string& w, const std::string& g, const std::string& along);
absl::Status ReadPointProducts(const std::vector<double>& scalars, ObjectiveValue* value);

// Asks `space` for them: one round trip.
absl::Status MeasurePoint(VectorSpace* space, const std::string& w, const std::string& g,
                          const std::string& along, ObjectiveValue* value);

}  // namespace monsoon
