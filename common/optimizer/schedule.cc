#include "common/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "common/settings/number_rule.h"

namespace monsoon {
namespace {

constexpr double kPlateauFactor = 0.5;

double BaseFactor(const Schedule& schedule, uint64_t k, uint32_t reductions) {
  switch (schedule.kind_case()) {
    case Schedule::kStep: {
      if (schedule.step().every_pushes() == 0) {
        break;  // a share of pushes that nobody has counted
      }
      const uint64_t drops = k / schedule.step().every_pushes();
      return std::pow(schedule.step().factor(), static_cast<double>(drops));
    }
    case Schedule::kCosine: {
      const CosineSchedule& cosine = schedule.cosine();
      if (cosine.pushes() == 0) {
        break;
      }
      const double done =
          static_cast<double>(std::min(k, cosine.pushes())) / static_cast<double>(cosine.pushes());
      return cosine.final() +
             (1.0 - cosine.final()) * (1.0 + std::cos(std::numbers::pi * done)) / 2.0;
    }
    case Schedule::kPlateau: {
      const PlateauSchedule& plateau = schedule.plateau();
      const double factor = plateau.factor() == 0 ? kPlateauFactor : plateau.factor();
      return std::max(plateau.min_factor(), std::pow(factor, static_cast<double>(reductions)));
    }
    case Schedule::KIND_NOT_SET:
      break;
  }
  return 1.0;
}

}  // namespace

absl::Status ValidateSchedule(const Schedule& schedule) {
  const google::protobuf::Reflection& reflection = *Schedule::GetReflection();
  const auto* const field =
      reflection.GetOneofFieldDescriptor(schedule, Schedule::descriptor()->FindOneofByName("kind"));
  if (field == nullptr) {
    return absl::OkStatus();
  }
  // A share of pushes stands in its place; where nobody has counted these, the rate stays.
  const StepSchedule& step = schedule.step();
  const CosineSchedule& cosine = schedule.cosine();
  const bool unset_step =
      schedule.has_step() && step.every_pushes() == 0 && step.every_share() == 0;
  if (unset_step || (schedule.has_cosine() && cosine.pushes() == 0 && cosine.share() == 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.", unset_step ? "step.every_pushes" : "cosine.pushes", " must be at least 1"));
  }
  const google::protobuf::Message& kind = reflection.GetMessage(schedule, field);
  return CheckNumbers(kind, absl::StrCat("schedule.", field->name(), "."));
}

double ScheduleFactor(const Schedule& schedule, uint64_t k) {
  return ScheduleFactor(schedule, k, schedule.plateau().reductions());
}

double ScheduleFactor(const Schedule& schedule, uint64_t k, uint32_t reductions) {
  double factor = BaseFactor(schedule, k + schedule.before(), reductions);
  if (k < schedule.warm_up_pushes()) {
    factor *= (static_cast<double>(k) + 1.0) / static_cast<double>(schedule.warm_up_pushes());
  }
  return factor;
}

}  // namespace monsoon
