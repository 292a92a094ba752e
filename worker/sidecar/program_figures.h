// ProgramFigures: what a program is told of its session with each answer.
//
// Thread safety: none; the compute thread's.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "worker/client/exchange.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"

namespace monsoon {

class ProgramFigures {
 public:
  // All must outlive this. Its local steps make so many pushes.
  ProgramFigures(uint32_t worker, uint64_t sessions, uint32_t fragments,
                 const StatsCollector* stats, const SessionControl* control, const Clock* clock);

  // What it has done is at most a tenth of a second old, since that is not cheap; but for refused
  // pushes, by which a program finds out whether it is fit to go on.
  EventFigures Get();
  // As of now.
  EventFigures Read();
  void CountEvaluation() { ++figures_.evaluations; }

 private:
  // What the coordinator says.
  void Hear();

  const uint32_t fragments_;
  const StatsCollector* const stats_;
  const SessionControl* const control_;
  const Clock* const clock_;
  EventFigures figures_;
  absl::Duration read_ = -absl::InfiniteDuration();
};

}  // namespace monsoon
