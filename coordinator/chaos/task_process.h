// TaskProcesses: the processes of a cluster's tasks on this machine, held so that a signal
// reaches the task that was meant, or nobody.
//
// Thread safety: none.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/chaos/cluster_view.h"

namespace monsoon {

// One process. Calls give NOT_FOUND when it has ended.
class TaskProcess {
 public:
  // A stopped one goes on.
  virtual ~TaskProcess() = default;

  virtual absl::Status Kill() = 0;
  virtual absl::Status Terminate() = 0;
  virtual absl::Status Stop() = 0;
  virtual absl::Status Continue() = 0;
};

class TaskProcesses {
 public:
  virtual ~TaskProcesses() = default;

  // Holds the process `task.pid`. NOT_FOUND when there is none, or it has ended; other
  // errors name the task and say why that process is not it, or may not be signalled.
  // The result does not outlive this object.
  virtual absl::StatusOr<std::unique_ptr<TaskProcess>> Open(const TaskView& task) = 0;
};

// Those of this machine, by pidfd. Forks (StopGuard): call it while the process has one
// thread.
absl::StatusOr<std::unique_ptr<TaskProcesses>> MakeTaskProcesses();

// Whether a process that was called so is the task: the program of its role, and the
// --task of its number, or none of a guest. FAILED_PRECONDITION says what it is instead.
absl::Status CheckCommandLine(const TaskView& task, std::span<const std::string> argv);

}  // namespace monsoon
