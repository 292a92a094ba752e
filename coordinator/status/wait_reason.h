// WaitReasons: why jobs wait, in words for people: each controller says what a job waits for there,
// and the first that says anything is the reason.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "coordinator/checkpoints/checkpoints.h"
#include "coordinator/job/controller.h"

namespace monsoon {

class WaitReasons {
 public:
  // `order`: whom to ask. All outlive this.
  WaitReasons(const Registry* registry, const Checkpoints* checkpoints,
              std::vector<const Controller*> order)
      : registry_(*registry), checkpoints_(*checkpoints), order_(std::move(order)) {}

  // Why updates of the state cannot be kept now; "": they can.
  void NoteJournal(const std::string& trouble) { journal_trouble_ = trouble; }
  // Why the job waits, or ended; "" while nothing is missing.
  std::string Of(const JobRecord& job, Moment moment) const;

 private:
  // What all replicas say that they wait for, where nothing has been trained for some seconds.
  std::string ReplicasReason(const JobRecord& job, absl::Duration now) const;
  // "": no job is ahead of this queued one.
  std::string QueueReason(const JobRecord& job, Moment moment) const;

  const Registry& registry_;
  const Checkpoints& checkpoints_;
  const std::vector<const Controller*> order_;
  std::string journal_trouble_;
};

}  // namespace monsoon
