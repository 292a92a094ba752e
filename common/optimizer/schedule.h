// Learning-rate schedules: pure functions of the number k of pushes applied
// before. The formulas stand beside Schedule in proto/optimizer.proto.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/optimizer/rate_reductions.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

// Sets what is unset and has a default.
void FillScheduleDefaults(Schedule* schedule);

// What is wrong with a list of points: there are none, or they stand in another order than that of
// their pushes, or shares. "": nothing.
std::string PointsComplaint(const PointsSchedule& points);

// InvalidArgument names the field.
absl::Status ValidateSchedule(const Schedule& schedule);

// What the rate is multiplied with; 1 for an empty schedule. Needs a valid one with all defaults
// filled in.
double ScheduleFactor(const Schedule& schedule, uint64_t k);

// With that many in place of the schedule's own.
double ScheduleFactor(const Schedule& schedule, uint64_t k, uint32_t reductions);

// A rate under its schedule, as ScheduleFactor wants it, rounded to float32 once.
class RateSchedule {
 public:
  // `reductions` count in place of the schedule's own; null: its own do.
  RateSchedule(double rate, Schedule schedule,
               std::shared_ptr<const RateReductions> reductions = nullptr)
      : rate_(rate), schedule_(std::move(schedule)), reductions_(std::move(reductions)) {}
  float At(uint64_t k) const {
    const double factor = reductions_ == nullptr
                              ? ScheduleFactor(schedule_, k)
                              : ScheduleFactor(schedule_, k, reductions_->load());
    return static_cast<float>(rate_ * factor);
  }

 private:
  double rate_;
  Schedule schedule_;
  std::shared_ptr<const RateReductions> reductions_;
};

}  // namespace monsoon
