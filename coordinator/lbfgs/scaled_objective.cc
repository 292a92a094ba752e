#include "coordinator/lbfgs/scaled_objective.h"

#include <cmath>

namespace monsoon {

absl::StatusOr<ObjectiveValue> ScaledObjective::Evaluate(const std::string& v,
                                                         const std::string& gradient_out,
                                                         const std::string& along) {
  const OwnedVector w = OwnedVector::New(space_, "w");
  const OwnedVector g = OwnedVector::New(space_, "g");
  OwnedVector d;
  RETURN_IF_ERROR(space_->Multiply(w.name(), scale_, v));
  if (!along.empty()) {
    d = OwnedVector::New(space_, "d");
    RETURN_IF_ERROR(space_->Multiply(d.name(), scale_, along));
  }
  ASSIGN_OR_RETURN(ObjectiveValue value, inner_->Evaluate(w.name(), g.name(), d.name()));
  if (!value.finite) {
    return value;  // there is no gradient
  }
  RETURN_IF_ERROR(space_->Multiply(gradient_out, scale_, g.name()));
  value.unscaled_g_dot_g = value.g_dot_g;
  ASSIGN_OR_RETURN(value.g_dot_g, space_->Dot(gradient_out, gradient_out));
  return value;
}

}  // namespace monsoon
