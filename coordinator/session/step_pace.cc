#include "coordinator/session/step_pace.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace monsoon {
namespace {

// Beyond the half that rounding takes: else two workers between two small numbers would go
// to and fro.
bool IsOff(double exact, uint32_t steps) {
  return std::abs(exact - steps) > 0.5 + StepPace::kTolerance * steps;
}

}  // namespace

StepPace::StepPace(uint32_t local_steps) : local_steps_(local_steps) { CHECK_GE(local_steps, 1u); }

void StepPace::SetMost(uint32_t local_steps) {
  CHECK_GE(local_steps, 1u);
  local_steps_ = local_steps;
  for (auto& [number, worker] : workers_) {
    worker.steps = 0;
  }
  Choose();
}

void StepPace::Note(uint32_t worker, double step_ms) {
  if (std::isfinite(step_ms) && step_ms > 0) {
    workers_[worker].step_ms = step_ms;
    Choose();
  }
}

void StepPace::Forget(uint32_t worker) {
  if (workers_.erase(worker) > 0) {
    Choose();
  }
}

void StepPace::ForgetAll() { workers_.clear(); }

uint32_t StepPace::LocalSteps(uint32_t worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? 0 : found->second.steps;
}

void StepPace::Choose() {
  double fastest_ms = std::numeric_limits<double>::infinity();
  for (const auto& [number, worker] : workers_) {
    fastest_ms = std::min(fastest_ms, worker.step_ms);
  }
  for (auto& [number, worker] : workers_) {
    // Of times, not of speeds: no step is so short that a quotient in [0, 1] overflows.
    const double exact = local_steps_ * (fastest_ms / worker.step_ms);
    const bool is_fastest = worker.step_ms == fastest_ms;
    if (is_fastest || worker.steps == 0 || IsOff(exact, worker.steps)) {
      worker.steps = std::clamp(static_cast<uint32_t>(std::lround(exact)), 1u, local_steps_);
    }
  }
}

}  // namespace monsoon
