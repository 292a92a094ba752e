// Requests: what people ask the coordinator for, but for checkpoints. CoordinatorCore says what
// each answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/checkpoints/checkpoints.h"
#include "coordinator/job/job_plan.h"
#include "coordinator/job/job_table.h"
#include "coordinator/job/job_view.h"
#include "coordinator/job/registry.h"
#include "coordinator/slices/journal_guard.h"
#include "coordinator/slices/slices.h"
#include "coordinator/slices/terms.h"
#include "coordinator/status/wait_reason.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

class Requests {
 public:
  struct Parts {
    Registry* registry = nullptr;
    Slices* slices = nullptr;
    Terms* terms = nullptr;
    const Checkpoints* checkpoints = nullptr;
    const WaitReasons* reasons = nullptr;
    const JournalGuard* guard = nullptr;
    // Does what follows from a change.
    std::function<void(absl::Duration now)> advance;
  };
  // What is in `parts` outlives this.
  explicit Requests(Parts parts);

  std::optional<SubmitReply> FindSubmission(const std::string& client_id) const;
  absl::StatusOr<SubmitReply> Submit(const JobPlan& plan, JobTable::Submission submission,
                                     Moment moment);
  absl::StatusOr<JobSummary> Start(const std::string& name, Moment moment);
  ListReply List(Moment moment) const;
  absl::StatusOr<JobDescription> Describe(const std::string& name, Moment moment) const;
  absl::StatusOr<JobSummary> Cancel(const std::string& name, Moment moment);
  absl::StatusOr<JobSummary> Delete(const std::string& name, Moment moment);
  using Judge = std::function<absl::Status(const Job& job, const Cluster& cluster)>;
  absl::StatusOr<SetReply> Set(const SetRequest& request, const Judge& judge, Moment moment);
  absl::StatusOr<JobLocation> Locate(const std::string& name, Moment moment) const;
  InfoReply Info(Moment moment) const;
  absl::StatusOr<TaskStatus> Drain(uint32_t worker);

 private:
  // Where a job of this plan goes on if its slices are made from those that `asked` names.
  // FailedPrecondition says why they cannot be.
  absl::StatusOr<ResumePoint> FindHeld(const JobPlan& plan, const ResumePoint& asked) const;
  // Of a job that has ended, and is on the shards as in its last generation, where these hold all
  // slices. FailedPrecondition says why it is not.
  absl::StatusOr<ResumePoint> HeldOf(const JobRecord& job) const;
  JobSummary Summarize(const JobRecord& job, Moment moment) const;
  TaskStatus WorkerStatus(uint32_t worker) const;
  JobView View(const JobRecord& job) const { return JobView(job, shards_); }
  void Log(std::string line) const { registry_->Log(std::move(line)); }

  Registry* const registry_;
  // Its parts.
  const Cluster& cluster_;
  Membership& membership_;
  ShardMonitor& shards_;
  JobTable& jobs_;
  Slices& slices_;
  Terms& terms_;
  const Checkpoints& checkpoints_;
  const WaitReasons& reasons_;
  const JournalGuard& guard_;
  const std::function<void(absl::Duration now)> advance_;
};

}  // namespace monsoon
