// Supervisor: runs the tasks of a plan until a signal or the end of a task
// that the cluster cannot do without.
//
// One thread, one poll loop over the signals, the folder of port files, and
// per task a pidfd and two pipes; nothing is polled by time. Children are
// forked from the calling thread and die with it.
//
// A worker that ends with 0 has left, as it was told to (`coordinator drain`), and stays
// away. Any other task that ends by itself: a box. It is started again after a back-off
// (restart_backoff.h) when the policy says so and it has not died too often in a row.
// Else, after a worker, the others go on; after a shard or the coordinator everything
// is stopped, exit 1. Where shards are never started again the rest stays for
// `shard_loss_grace` after one, so that the coordinator fails its jobs with the reason
// and those who watch them hear it.
//
// Stopping: SIGTERM to the workers, then to the others, so that the last pushes find
// their shards and are in what these write at their end. SIGKILL to workers after
// `worker_stop_timeout`, to others once the whole stop has taken `stop_timeout`; they
// are named. A second signal kills all at once.
#pragma once

#include <cstdint>
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

// "never", "workers", "all".
const char* RestartPolicyName(RestartPolicy policy);

struct SupervisorOptions {
  std::string cluster_name;
  RestartPolicy restart = RestartPolicy::kAll;
  // Task lines go to these two; messages of `up` itself always to err_fd.
  int out_fd = 1;
  int err_fd = 2;
  bool quiet = false;  // task lines are kept for the box only
  absl::Duration ready_timeout = absl::Seconds(30);
  // A worker's last push may wait for a shard; shards write what they hold.
  absl::Duration stop_timeout = absl::Seconds(30);
  absl::Duration worker_stop_timeout = absl::Seconds(20);
  absl::Duration shard_loss_grace = absl::ZeroDuration();
  // All wait for a shard or the coordinator.
  absl::Duration first_backoff = absl::Milliseconds(250);
  absl::Duration first_worker_backoff = absl::Seconds(1);
  absl::Duration longest_backoff = absl::Seconds(30);
  uint32_t max_deaths_in_a_row = 5;  // 0: no limit
  // Where the shards write checkpoints; "": nowhere.
  std::string state_dir;
};

class Supervisor {
 public:
  // `signals` delivers SIGINT, SIGTERM and SIGHUP and outlives this object.
  Supervisor(std::vector<TaskPlan> plan, std::string port_folder, SupervisorOptions options,
             SignalFd* signals);

  // Returns an exit code: 1 after the death of a task that all
  // need and that is not started again, 4 when the tasks do not listen in time, 130 or 143 after a
  // signal. No child is left. Errors: a task cannot be started.
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
  std::string GivenUp(const SupervisedTask& task) const;
  void BeginStop(int exit_code);
  void AdvanceStop();
  void EnterStopPhase(Phase phase);
  absl::Duration StopTimeout(Phase phase) const;
  void KillAll();
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
  absl::Duration stop_began_;
  absl::Duration stop_deadline_;
  int exit_code_ = 0;
};

}  // namespace monsoon
