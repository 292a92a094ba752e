#include "coordinator/job/job_record.h"

#include <utility>

namespace monsoon {
namespace {

// A replica that joins and is lost again and again must not fill the memory.
constexpr size_t kMaxEvents = 1000;

}  // namespace

JobState JobRecord::state() const {
  switch (stage) {
    case Stage::kQueued:
    case Stage::kCreating:
      return PENDING;
    case Stage::kReady:
      return waits_for_client() ? INITIALIZING : PENDING;
    case Stage::kActive:
    case Stage::kEnding:
      switch (procedure()->phase()) {
        case JobProcedure::Phase::kIdle:
          return PENDING;
        case JobProcedure::Phase::kWarmstart:
          return WARMSTART;
        case JobProcedure::Phase::kRunning:
          return RUNNING;
        case JobProcedure::Phase::kDraining:
        case JobProcedure::Phase::kFinalEvaluation:
        case JobProcedure::Phase::kLeaving:
        case JobProcedure::Phase::kDone:
          return hands_over() ? RUNNING : FINISHING;
      }
      break;
    case Stage::kEnded:
    case Stage::kDeleting:
      return end_state;
  }
  return JOB_STATE_UNSPECIFIED;
}

std::optional<absl::Duration> JobRecord::started() const {
  if (downpour != nullptr) {
    return downpour->started();
  }
  return sandblaster != nullptr ? sandblaster->started() : std::nullopt;
}

absl::Duration JobRecord::elapsed(absl::Duration now) const {
  const std::optional<absl::Duration> began = started();
  return began ? ended.value_or(now) - *began : absl::ZeroDuration();
}

double JobRecord::fraction(absl::Duration now) const {
  if (procedure() == nullptr) {
    return 0.0;
  }
  const double fraction = procedure()->fraction(ended.value_or(now));
  if (!plan.job.has_downpour() || !plan.job.has_sandblaster()) {
    return fraction;
  }
  return sandblaster == nullptr ? fraction / 2 : (1 + fraction) / 2;
}

void JobRecord::AddEvent(absl::Duration now, std::string kind, std::string task, std::string text) {
  if (events.size() == kMaxEvents) {
    // The beginning tells how it started, the end what happened last.
    events.erase(events.begin() + kMaxEvents / 2);
  }
  events.push_back(
      {absl::ToDoubleSeconds(elapsed(now)), std::move(kind), std::move(task), std::move(text)});
}

}  // namespace monsoon
