#include "common/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

constexpr double kPlateauFactor = 0.5;

double BaseFactor(const Schedule& schedule, uint64_t k, uint32_t reductions) {
  switch (schedule.kind_case()) {
    case Schedule::kStep: {
      const uint64_t drops = k / schedule.step().every_pushes();
      return std::pow(schedule.step().factor(), static_cast<double>(drops));
    }
    case Schedule::kCosine: {
      const CosineSchedule& cosine = schedule.cosine();
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
  if (schedule.has_step()) {
    if (schedule.step().every_pushes() == 0) {
      return absl::InvalidArgumentError("schedule.step.every_pushes must be at least 1");
    }
    const double factor = schedule.step().factor();
    if (!(factor > 0.0 && factor <= 1.0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule.step.factor is ", factor, ", it must be in (0, 1]"));
    }
  }
  if (schedule.has_cosine()) {
    if (schedule.cosine().pushes() == 0) {
      return absl::InvalidArgumentError("schedule.cosine.pushes must be at least 1");
    }
    const double final_factor = schedule.cosine().final();
    if (!(final_factor >= 0.0 && final_factor <= 1.0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule.cosine.final is ", final_factor, ", it must be in [0, 1]"));
    }
  }
  if (schedule.has_plateau()) {
    const PlateauSchedule& plateau = schedule.plateau();
    if (!(plateau.factor() >= 0.0 && plateau.factor() < 1.0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule.plateau.factor is ", plateau.factor(), ", it must be in (0, 1)"));
    }
    if (!(plateau.min_factor() >= 0.0 && plateau.min_factor() < 1.0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "schedule.plateau.min_factor is ", plateau.min_factor(), ", it must be in [0, 1)"));
    }
    if (!(plateau.min_change() >= 0.0 && std::isfinite(plateau.min_change()))) {
      return absl::InvalidArgumentError(absl::StrCat("schedule.plateau.min_change is ",
                                                     plateau.min_change(),
                                                     ", it must be at least 0 and finite"));
    }
  }
  return absl::OkStatus();
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
