#include "coordinator/lbfgs/synthetic_objective.h"

#include <cmath>
#include <vector>

namespace monsoon {

absl::StatusOr<SyntheticObjective> SyntheticObjective::Create(VectorSpace* space, uint64_t seed,
                                                              double condition, double l2) {
  if (!(condition >= 1.0) || !std::isfinite(condition) || !(l2 >= 0.0) || !std::isfinite(l2)) {
    return absl::InvalidArgumentError(absl::StrCat("synthetic objective: condition is ", condition,
                                                   " and must be at least 1, ", "l2 is ", l2,
                                                   " and must be at least 0"));
  }
  SyntheticObjective objective(space, l2);
  // No value is uniform in [1, 1).
  RETURN_IF_ERROR(condition == 1.0
                      ? space->Fill(objective.a(), 1.0)
                      : space->Uniform(objective.a(), seed, kCurvatureStream, 1.0, condition));
  RETURN_IF_ERROR(space->Uniform(objective.b(), seed, kCentreStream, -1.0, 1.0));
  return objective;
}

absl::StatusOr<ObjectiveValue> SyntheticObjective::Evaluate(const std::string& w,
                                                            const std::string& gradient_out,
                                                            const std::string& along) {
  OwnedVector error = OwnedVector::New(space_, "e");
  OwnedVector scaled;
  RETURN_IF_ERROR(space_->Axpy(error.name(), -1.0, b_.name(), w));
  std::string product = gradient_out;
  if (l2_ != 0.0) {
    scaled = OwnedVector::New(space_, "p");
    product = scaled.name();
  }
  RETURN_IF_ERROR(space_->Multiply(product, a_.name(), error.name()));
  if (l2_ != 0.0) {
    RETURN_IF_ERROR(space_->Axpy(gradient_out, l2_, w, product));
  }
  ASSIGN_OR_RETURN(const double twice_f, space_->Dot(product, error.name()));
  ObjectiveValue value{.finite = true};
  RETURN_IF_ERROR(MeasurePoint(space_, w, gradient_out, along, &value));
  value.f = 0.5 * twice_f + 0.5 * l2_ * value.w_dot_w;
  if (!std::isfinite(value.f)) {
    space_->Free(gradient_out);
    return ObjectiveValue{.f = HUGE_VAL, .finite = false};
  }
  return value;
}

}  // namespace monsoon
