// SupervisedTask: one task that `up` runs, its process and its output.
//
// Thread safety: none; used by the supervisor's thread only.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/process/subprocess.h"
#include "coordinator/launcher/line_splitter.h"
#include "coordinator/launcher/restart_backoff.h"
#include "coordinator/launcher/task_plan.h"

namespace monsoon {

// Where the lines of all tasks go. A descriptor of -1 drops them.
struct OutputFds {
  int out = -1;
  int err = -1;
};

class SupervisedTask {
 public:
  SupervisedTask(TaskPlan plan, OutputFds output, RestartBackoff restarts, const Clock* clock)
      : backoff(restarts), plan_(std::move(plan)), output_(output), clock_(clock) {}

  const TaskPlan& plan() const { return plan_; }

  // Starts the process. Removes an old port file first.
  absl::Status Start();
  bool running() const { return process_.has_value(); }
  pid_t pid() const { return process_.has_value() ? process_->pid() : last_pid_; }
  int pidfd() const { return process_.has_value() ? process_->pidfd() : -1; }
  int stdout_fd() const { return process_.has_value() ? process_->stdout_fd() : -1; }
  int stderr_fd() const { return process_.has_value() ? process_->stderr_fd() : -1; }
  absl::Duration lived() const { return lived_; }
  const std::deque<std::string>& last_lines() const { return last_lines_; }

  // Whether the port file has been written since Start.
  bool CheckListening();

  // Forwards what the process has written, a line at a time: `ROLE/I | LINE`.
  void ForwardStdout() { Forward(/*is_stdout=*/true); }
  void ForwardStderr() { Forward(/*is_stdout=*/false); }

  // When the process has ended: forwards the rest of its output, reaps it and
  // tells how it ended.
  std::optional<ProcessEnd> TakeEnd();

  // SIGTERM, and SIGCONT so that a stopped process hears it.
  void Terminate();
  void Kill();

  // Set by the supervisor while the task waits for its next start.
  std::optional<absl::Duration> restart_at;
  RestartBackoff backoff;

 private:
  void Forward(bool is_stdout);
  void EmitLine(const std::string& line, int fd);

  const TaskPlan plan_;
  const OutputFds output_;
  const Clock* const clock_;
  std::optional<Subprocess> process_;
  LineSplitter out_lines_;
  LineSplitter err_lines_;
  std::deque<std::string> last_lines_;
  absl::Duration started_at_;
  absl::Duration lived_;
  pid_t last_pid_ = -1;
  bool listening_ = false;
};

// Writes all of `text`; a reader that has gone away is no error. Blocks while
// the reader does not read.
void WriteFully(int fd, absl::string_view text);

}  // namespace monsoon
