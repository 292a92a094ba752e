// Learning-rate schedules: pure functions of the number k of pushes applied
// before. The formulas stand beside Schedule in proto/job.proto.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace monsoon {

// InvalidArgument names the field.
absl::Status ValidateSchedule(const Schedule& schedule);

// What the rate is multiplied with; 1 for an empty schedule. Needs a valid one.
double ScheduleFactor(const Schedule& schedule, uint64_t k);

// A rate under its schedule, rounded to float32 once.
class RateSchedule {
 public:
  RateSchedule(double rate, Schedule schedule) : rate_(rate), schedule_(std::move(schedule)) {}
  float At(uint64_t k) const { return static_cast<float>(rate_ * ScheduleFactor(schedule_, k)); }

 private:
  double rate_;
  Schedule schedule_;
};

}  // namespace monsoon
