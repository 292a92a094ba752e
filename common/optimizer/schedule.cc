#include "common/optimizer/schedule.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/optimizer/schedule_lengths.h"
#include "common/settings/number_rule.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;

constexpr double kPlateauFactor = 0.5;

// How much of a schedule's length is over, in [0, 1]; 0 of one that nobody has counted yet.
double Done(uint64_t k, uint64_t pushes) {
  return pushes == 0 ? 0.0 : static_cast<double>(std::min(k, pushes)) / static_cast<double>(pushes);
}

// From 1 at 0 to 0 at 1, as half a cosine.
double HalfCosine(double done) { return (1.0 + std::cos(std::numbers::pi * done)) / 2.0; }

double Between(double start, double end, double part) { return start + (end - start) * part; }

double OneCycleFactor(const OneCycleSchedule& cycle, uint64_t k) {
  if (cycle.pushes() == 0) {
    return 1.0;
  }
  const double at = static_cast<double>(k), last = static_cast<double>(cycle.pushes()) - 1.0;
  const double top = std::max(0.0, cycle.rise() * static_cast<double>(cycle.pushes()) - 1.0);
  if (at < top) {
    return Between(1.0, cycle.start(), HalfCosine(at / top));
  }
  const double falls = std::max(last - top, 1.0);
  return Between(cycle.final(), 1.0, HalfCosine(std::min(1.0, (at - top) / falls)));
}

double PointsFactor(const PointsSchedule& points, uint64_t k) {
  const auto& list = points.point();
  const auto after =
      std::ranges::find_if(list, [k](const SchedulePoint& point) { return point.pushes() > k; });
  if (after == list.begin()) {
    return list.empty() ? 1.0 : list.begin()->factor();
  }
  const auto before = std::prev(after);
  if (after == list.end() || points.hold()) {
    return before->factor();
  }
  return Between(before->factor(), after->factor(),
                 static_cast<double>(k - before->pushes()) /
                     static_cast<double>(after->pushes() - before->pushes()));
}

double BaseFactor(const Schedule& schedule, uint64_t k, uint32_t reductions) {
  switch (schedule.kind_case()) {
    case Schedule::kStep: {
      if (schedule.step().every_pushes() == 0) {
        break;  // a share of pushes that nobody has counted
      }
      const uint64_t drops = k / schedule.step().every_pushes();
      return std::pow(schedule.step().factor(), static_cast<double>(drops));
    }
    case Schedule::kCosine:
      return Between(schedule.cosine().final(), 1.0,
                     HalfCosine(Done(k, schedule.cosine().pushes())));
    case Schedule::kLinear:
      return Between(1.0, schedule.linear().final(), Done(k, schedule.linear().pushes()));
    case Schedule::kPolynomial: {
      const PolynomialSchedule& polynomial = schedule.polynomial();
      return Between(polynomial.final(), 1.0,
                     std::pow(1.0 - Done(k, polynomial.pushes()), polynomial.power()));
    }
    case Schedule::kInverseRoot: {
      const uint64_t pushes = schedule.inverse_root().pushes();
      return pushes == 0 ? 1.0
                         : std::sqrt(static_cast<double>(pushes) /
                                     static_cast<double>(std::max(k, pushes)));
    }
    case Schedule::kOneCycle:
      return OneCycleFactor(schedule.one_cycle(), k);
    case Schedule::kPoints:
      return PointsFactor(schedule.points(), k);
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

// The field of the kind that is set; null: none is.
const FieldDescriptor* KindField(const Schedule& schedule) {
  return Schedule::GetReflection()->GetOneofFieldDescriptor(
      schedule, Schedule::descriptor()->FindOneofByName("kind"));
}

}  // namespace

void FillScheduleDefaults(Schedule* schedule) {
  if (const FieldDescriptor* const field = KindField(*schedule); field != nullptr) {
    FillUnset(Schedule::GetReflection()->MutableMessage(schedule, field));
  }
}

std::string PointsComplaint(const PointsSchedule& points) {
  if (points.point_size() == 0) {
    return "has no point";
  }
  for (int i = 1; i < points.point_size(); ++i) {
    const SchedulePoint &before = points.point(i - 1), &point = points.point(i);
    // Shares that nobody has counted yet are compared with each other.
    const auto counted = [](const SchedulePoint& at) {
      return at.share() == 0 || at.pushes() != 0;
    };
    const bool backwards = counted(before) && counted(point) ? point.pushes() < before.pushes()
                           : point.share() != 0              ? point.share() < before.share()
                                                             : point.pushes() == 0;
    if (backwards) {
      return absl::StrCat("point ", i + 1, " comes before point ", i);
    }
  }
  return "";
}

absl::Status ValidateSchedule(const Schedule& schedule) {
  const FieldDescriptor* const field = KindField(schedule);
  if (field == nullptr) {
    return absl::OkStatus();
  }
  // A share of pushes stands in its place; where nobody has counted these, the rate stays.
  for (const ScheduleLength& length : LengthsOf(schedule)) {
    if (length.needed && length.pushes == 0 && length.share == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule.", length.name, " must be at least 1"));
    }
  }
  for (const SchedulePoint& point : schedule.points().point()) {
    RETURN_IF_ERROR(CheckNumbers(point, "schedule.points.point."));
  }
  if (const std::string complaint = PointsComplaint(schedule.points());
      schedule.has_points() && !complaint.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("schedule.points ", complaint));
  }
  return CheckNumbers(Schedule::GetReflection()->GetMessage(schedule, field),
                      absl::StrCat("schedule.", field->name(), "."));
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
