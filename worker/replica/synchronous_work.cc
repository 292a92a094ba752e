#include "worker/replica/synchronous_work.h"

#include "common/base/logging.h"
#include "common/base/status.h"
#include "worker/replica/training_work.h"

namespace monsoon {

SynchronousWork::SynchronousWork(SynchronousRunner* runner, uint32_t worker, const Clock* clock)
    : runner_(runner), worker_(worker), clock_(clock), logged_at_(clock->Now()) {}

absl::Status SynchronousWork::Step() {
  RETURN_IF_ERROR(runner_->Step());
  LogProgress();
  return absl::OkStatus();
}

void SynchronousWork::LogProgress() {
  const uint64_t steps = runner_->steps();
  if (steps / kLogSteps == logged_steps_ / kLogSteps) {
    return;
  }
  const absl::Duration now = clock_->Now();
  const double mean_ms =
      absl::ToDoubleMilliseconds(now - logged_at_) / static_cast<double>(steps - logged_steps_);
  LogStep(worker_, steps, runner_->last(), mean_ms);
  logged_steps_ = steps;
  logged_at_ = now;
}

}  // namespace monsoon
