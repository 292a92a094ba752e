// WaitReasons: why jobs wait, in words for people: each controller says what a job waits for there,
// and the first that says anything is the reason.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "coordinator/checkpoints/checkpoints.h"
#include "coordinator/job/controller.h"
#include "coordinator/slices/journal_guard.h"

namespace monsoon {

class WaitReasons {
 public:
  // `order`: whom to ask. All outlive this.
  WaitReasons(const Registry* registry, const Checkpoints* checkpoints, const JournalGuard* guard,
              std::vector<const Controller*> order)
      : registry_(*registry),
        checkpoints_(*checkpoints),
        guard_(*guard),
        order_(std::move(order)) {}

  // Why the job waits, or ended; "" while nothing is missing.
  std::string Of(const JobRecord& job, Moment moment) const;

 private:
  // What all replicas say that they wait for, where nothing has been trained for some seconds.
  std::string ReplicasReason(const JobRecord& job, absl::Duration now) const;
  // "": no job is ahead of this queued one.
  std::string QueueReason(const JobRecord& job, Moment moment) const;

  const Registry& registry_;
  const Checkpoints& checkpoints_;
  const JournalGuard& guard_;
  const std::vector<const Controller*> order_;
};

}  // namespace monsoon
