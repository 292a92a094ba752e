// ComparedJobs: the jobs of `coordinator compare`, one after another on a cluster, each watched to
// its end; and the death that is planted into one.
//
// Thread safety: none.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/chaos/cluster_view.h"
#include "coordinator/chaos/task_process.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/patience.h"
#include "coordinator/compare/compare_plan.h"
#include "coordinator/compare/comparison.h"
#include "proto/job.pb.h"

namespace monsoon {

// How one job went.
struct JobOutcome {
  std::string job;
  JobDescription last;             // the newest that was told
  bool lost = false;               // the coordinator did not know it any more
  std::vector<CurvePoint> losses;  // of the training, as they were seen
  std::optional<double> killed_at_s;
  uint32_t killed_pid = 0;
  std::optional<double> back_after_s;

  // JobState, or "LOST".
  std::string state() const;
  std::string reason() const;
};

class ComparedJobs {
 public:
  // `coordinator` is its address. `processes` is there where deaths are. All outlive this. The
  // coordinator may be away for `patience_s`. `keep`: jobs are not deleted at their ends.
  ComparedJobs(const Invocation& call, JobClient* client, std::string coordinator,
               TaskProcesses* processes, double patience_s, std::function<bool()> comes_back,
               bool keep);

  // Waits for a coordinator that is being started again.
  absl::Status Reach();
  // Whether `task` is one of this machine whose process can be killed; waits some seconds for one
  // that is being started. The error says why not.
  absl::Status CheckDeath(const std::string& task);

  // Submits the job, waits for its end, and for the return of the task that was killed. A job that
  // fails is an outcome; an error is the end of all: the coordinator is away for too long or
  // refuses the job, or the task is not back in time (DEADLINE_EXCEEDED). After a signal the job
  // was cancelled, and signal() is set.
  absl::StatusOr<JobOutcome> Run(const Job& job, const std::optional<PlannedDeath>& death);

  // That arrived.
  std::optional<int> signal() const { return signal_; }

 private:
  // The cluster as it is now.
  absl::StatusOr<ClusterView> View();
  absl::StatusOr<std::string> Submit(const Job& job);
  absl::Status Watch(const std::optional<PlannedDeath>& death, JobOutcome* outcome);
  // Looks at the job once. False: it has ended.
  absl::StatusOr<bool> Look(JobOutcome* outcome);
  void TellReason(const JobSummary& summary);
  absl::Status Kill(const std::string& task, JobOutcome* outcome);
  void AwaitHealth(const std::string& task);
  absl::Status AwaitReturn(const std::string& task, JobOutcome* outcome);
  void LookForReturn(const std::string& task, JobOutcome* outcome);
  void Cancel(JobOutcome* outcome);
  void Delete(const std::string& job);
  // False: a signal arrived.
  bool Wait(absl::Duration time);

  const Invocation& call_;
  const Environment& env_;
  JobClient& client_;
  const std::string coordinator_;
  TaskProcesses* const processes_;
  Patience patience_;
  const bool keep_;
  absl::Duration killed_at_;
  std::optional<absl::Duration> back_at_;  // from the newest death
  std::string reason_;                     // the newest, and since when
  absl::Duration reason_since_;
  bool told_ = false;
  std::optional<int> signal_;
};

}  // namespace monsoon
