// Supervisor: runs the tasks of a plan until a signal or the end of a task
// that the cluster cannot do without.
//
// One thread, one poll loop over the signals, the folder of port files, and
// per task a pidfd and two pipes; nothing is polled by time. Children are
// forked from the calling thread and die with it.
//
// A worker that ends by itself: a box; the others go on, and it is started
// again after a back-off (restart_backoff.h) when the policy says so. A shard or the coordinator:
// a box, everything is stopped, exit 1 (with kAll it is started again). After
// a shard the rest stays for `shard_loss_grace`, so that the coordinator fails
// its jobs with the reason and those who watch them hear it.
//
// Stopping: SIGTERM to the workers, then to the others, so that pushes in
// flight find their shards; SIGKILL after `stop_timeout` for each of the two.
// A second signal kills at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/process/signal_fd.h"
#include "common/process/unique_fd.h"
#include "coordinator/launcher/supervised_task.h"
#include "coordinator/launcher/task_plan.h"

namespace monsoon {

enum class RestartPolicy { kNever, kWorkers, kAll };

struct SupervisorOptions {
  std::string cluster_name;
  RestartPolicy restart = RestartPolicy::kNever;
  // Task lines go to these two; messages of `up` itself always to err_fd.
  int out_fd = 1;
  int err_fd = 2;
  bool quiet = false;  // task lines are kept for the box only
  absl::Duration ready_timeout = absl::Seconds(30);
  // Over the grace that a worker's drain has (8 s).
  absl::Duration stop_timeout = absl::Seconds(10);
  absl::Duration shard_loss_grace = absl::ZeroDuration();
  absl::Duration first_backoff = absl::Seconds(1);
  absl::Duration longest_backoff = absl::Seconds(30);
};

class Supervisor {
 public:
  // `signals` delivers SIGINT, SIGTERM and SIGHUP and outlives this object.
  Supervisor(std::vector<TaskPlan> plan, std::string port_folder, SupervisorOptions options,
             SignalFd* signals);

  // Returns an exit code: 1 after the death of a task that all
  // need, 4 when the tasks do not listen in time, 130 or 143 after a signal.
  // No child is left. Errors: a task cannot be started.
  absl::StatusOr<int> Run();

 private:
  enum class Phase { kRunning, kLingering, kStoppingWorkers, kStoppingOthers, kStopped };

  absl::Status StartAll();
  void PollOnce();
  void HandleSignal(int signal);
  void HandleEnd(SupervisedTask* task, const ProcessEnd& end);
  bool WantsRestart(const SupervisedTask& task) const;
  void RestartDue();
  void CheckReady();
  std::string Consequence(SupervisedTask* task);
  void BeginStop(int exit_code);
  void AdvanceStop();
  void EnterStopPhase(Phase phase);
  bool AnyRunning(bool workers) const;
  absl::Duration NextDeadline() const;
  void Say(absl::string_view text);

  const std::string port_folder_;
  const SupervisorOptions options_;
  SignalFd* const signals_;
  const Clock* const clock_ = Clock::Real();
  UniqueFd folder_events_;  // inotify on port_folder_
  std::vector<std::unique_ptr<SupervisedTask>> tasks_;
  Phase phase_ = Phase::kRunning;
  bool ready_ = false;
  bool killed_ = false;
  absl::Duration ready_deadline_;
  absl::Duration stop_deadline_;
  int exit_code_ = 0;
};

}  // namespace monsoon
