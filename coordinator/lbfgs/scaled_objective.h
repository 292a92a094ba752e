// ScaledObjective: the same function of scaled variables v, w = scale * v element by element. Its
// gradient is scale * g, so that where the parts of w differ in size by orders of magnitude,
// those of v do not, and a minimiser that knows no sizes finds its way.
//
// Costs one round trip an evaluation beyond the function's own, and four more vectors at a time.
//
// Not thread safe.
#pragma once

#include <string>

#include "coordinator/lbfgs/objective.h"
#include "coordinator/lbfgs/vector_space.h"

namespace monsoon {

class ScaledObjective : public Objective {
 public:
  // All outlive this. `scale` is a vector of powers of two: then nothing is rounded.
  ScaledObjective(VectorSpace* space, Objective* inner, const std::string& scale)
      : space_(space), inner_(inner), scale_(scale) {}

  absl::StatusOr<ObjectiveValue> Evaluate(const std::string& v, const std::string& gradient_out,
                                          const std::string& along) override;

 private:
  VectorSpace* const space_;
  Objective* const inner_;
  const std::string scale_;
};

}  // namespace monsoon
