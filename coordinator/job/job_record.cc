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
      switch (downpour->phase()) {
        case DownpourJob::Phase::kIdle:
          return PENDING;
        case DownpourJob::Phase::kWarmstart:
          return WARMSTART;
        case DownpourJob::Phase::kRunning:
          return RUNNING;
        case DownpourJob::Phase::kDraining:
        case DownpourJob::Phase::kFinalEvaluation:
        case DownpourJob::Phase::kLeaving:
        case DownpourJob::Phase::kDone:
          return FINISHING;
      }
      break;
    case Stage::kEnded:
    case Stage::kDeleting:
      return end_state;
  }
  return JOB_STATE_UNSPECIFIED;
}

absl::Duration JobRecord::elapsed(absl::Duration now) const {
  if (downpour == nullptr || !downpour->started()) {
    return absl::ZeroDuration();
  }
  return ended.value_or(now) - *downpour->started();
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
