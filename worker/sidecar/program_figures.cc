#include "worker/sidecar/program_figures.h"

#include <algorithm>

namespace monsoon {
namespace {

constexpr absl::Duration kAge = absl::Milliseconds(100);

}  // namespace

ProgramFigures::ProgramFigures(uint32_t worker, uint64_t sessions, uint32_t fragments,
                               const StatsCollector* stats, const SessionControl* control,
                               const Clock* clock)
    : fragments_(fragments), stats_(stats), control_(control), clock_(clock) {
  figures_.worker = worker;
  figures_.sessions = sessions;
}

EventFigures ProgramFigures::Get() {
  if (clock_->Now() - read_ >= kAge) {
    return Read();
  }
  Hear();
  figures_.refused = stats_->refused();
  return figures_;
}

void ProgramFigures::Hear() {
  figures_.replicas = control_->replicas();
  // 0: nothing was said yet.
  figures_.local_steps = (control_->local_steps() + fragments_ - 1) / fragments_;
}

EventFigures ProgramFigures::Read() {
  read_ = clock_->Now();
  Hear();
  const ReplicaStats stats = stats_->Snapshot();
  figures_.fetches = stats.fetches();
  figures_.pushes = stats.pushes();
  figures_.refused = stats.refused();
  figures_.bytes_fetched = stats.bytes_fetched();
  figures_.bytes_pushed = stats.bytes_pushed();
  for (const auto& [staleness, pushes] : stats.staleness()) {
    figures_.staleness_max = std::max(figures_.staleness_max, staleness);
  }
  figures_.staleness = stats_->last_staleness();
  return figures_;
}

}  // namespace monsoon
