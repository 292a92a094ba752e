// SupervisedTask: one task that `up` runs: its process, its output, and what its life
// was worth.
//
// Thread safety: none; used by the supervisor's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  // `state_dir` is where the cluster's shards write checkpoints; "": nowhere.
  SupervisedTask(TaskPlan plan, OutputFds output, RestartBackoff restarts, std::string state_dir,
                 const Clock* clock)
      : backoff(restarts),
        plan_(std::move(plan)),
        output_(output),
        state_dir_(std::move(state_dir)),
        clock_(clock) {}

  const TaskPlan& plan() const { return plan_; }

  // Starts the process. Removes an old port file first.
  absl::Status Start();
  bool running() const { return process_.has_value(); }
  pid_t pid() const { return process_.has_value() ? process_->pid() : last_pid_; }
  int pidfd() const { return process_.has_value() ? process_->pidfd() : -1; }
  int stdout_fd() const { return process_.has_value() ? process_->stdout_fd() : -1; }
  int stderr_fd() const { return process_.has_value() ? process_->stderr_fd() : -1; }
  // Of the process that ended last: since Start, and what it has done.
  absl::Duration lived() const { return lived_; }
  const TaskLife& life() const { return life_; }
  const std::deque<std::string>& last_lines() const { return last_lines_; }

  // Whether the port file has been written since Start. The process serves from the
  // first call that sees it.
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
  absl::StatusOr<uint64_t> NewestPart() const;

  const TaskPlan plan_;
  const OutputFds output_;
  const std::string state_dir_;
  const Clock* const clock_;
  std::optional<Subprocess> process_;
  LineSplitter out_lines_;
  LineSplitter err_lines_;
  std::deque<std::string> last_lines_;
  absl::Duration started_at_;
  std::optional<absl::Duration> listening_since_;
  absl::StatusOr<uint64_t> part_before_ = 0;  // NewestPart at the start
  absl::Duration lived_;
  TaskLife life_;
  pid_t last_pid_ = -1;
};

// Writes all of `text`; a reader that has gone away is no error. Blocks while
// the reader does not read.
void WriteFully(int fd, absl::string_view text);

}  // namespace monsoon
