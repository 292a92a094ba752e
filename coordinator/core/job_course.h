// The course of an active job: its procedures one after the other, and its end. Three
// controllers, since between their steps others have theirs (CoordinatorCore has the order).
#pragma once

#include <string>

#include "absl/time/time.h"
#include "coordinator/checkpoints/checkpoints.h"
#include "coordinator/job/controller.h"
#include "coordinator/sandblaster/batch_control.h"

namespace monsoon {

// Ends a job when its sessions are closed, the figures of a job that succeeds have been polled
// once more, and its last checkpoint is held.
class Endings : public Controller {
 public:
  Endings(Registry* registry, Checkpoints* checkpoints)
      : Controller(registry), checkpoints_(checkpoints) {}

  // Some job ends with a poll that has not begun.
  bool wants_poll() const;
  bool Advance(JobRecord* job, absl::Duration now) override;

 private:
  Checkpoints* const checkpoints_;
};

// Begins the procedures of a job, lets time pass for them, and tells what they have to tell.
class Procedures : public Controller {
 public:
  Procedures(Registry* registry, BatchControl* batches) : Controller(registry), batches_(batches) {}

  // The next one of the job's plan; there is one.
  void Begin(JobRecord* job, absl::Duration now);
  bool Advance(JobRecord* job, absl::Duration now) override;
  void Recover(JobRecord* job, absl::Duration now) override;

 private:
  void BeginDownpour(JobRecord* job, absl::Duration now);
  void BeginSynchronous(JobRecord* job, absl::Duration now);
  void BeginBatch(JobRecord* job, absl::Duration now);
  // An event of a job that goes on from a checkpoint.
  void TellOfResume(JobRecord* job, const std::string& what, absl::Duration now);

  BatchControl* const batches_;
};

// A procedure is done: the next one begins, or the job ends well.
class Succession : public Controller {
 public:
  Succession(Registry* registry, Procedures* procedures)
      : Controller(registry), procedures_(procedures) {}

  bool Advance(JobRecord* job, absl::Duration now) override;

 private:
  Procedures* const procedures_;
};

}  // namespace monsoon
