// Subprocess: one child process, watched through a pidfd, so that a signal
// never reaches a stranger who got the same pid.
//
// Start forks: call it while the process has one thread, and from the main
// thread, because the child dies with the thread that forked it.
//
// Thread safety: none.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/process/unique_fd.h"

namespace monsoon {

// How a process ended.
struct ProcessEnd {
  bool signaled = false;
  int code = 0;  // the signal, or the exit code

  bool ok() const { return !signaled && code == 0; }
  // "killed by signal 9 (SIGKILL)", "exited with code 2".
  std::string Describe() const;
};

class Subprocess {
 public:
  struct Options {
    // Standard output and error go to pipes; else they are inherited.
    bool pipe_stdout = true;
    bool pipe_stderr = true;
    // A process group of its own: the terminal's Ctrl-C does not reach it.
    bool own_group = true;
  };

  // Runs argv[0], a path. The child's standard input is /dev/null, its signals
  // are at their defaults, and it is killed when this process ends in any way.
  // Errors (no such file, not executable) name argv[0].
  static absl::StatusOr<Subprocess> Start(const std::vector<std::string>& argv, Options options);

  Subprocess(Subprocess&&) = default;
  Subprocess& operator=(Subprocess&& other);
  // Kills and reaps the child if it is still there.
  ~Subprocess();

  pid_t pid() const { return pid_; }
  // Becomes readable when the child has ended.
  int pidfd() const { return pidfd_.get(); }
  // Read ends, non-blocking; -1 where not piped or closed.
  int stdout_fd() const { return stdout_.get(); }
  int stderr_fd() const { return stderr_.get(); }
  void CloseStdout() { stdout_.reset(); }
  void CloseStderr() { stderr_.reset(); }

  // Does nothing once the child has ended.
  void Signal(int signal);
  // Reaps the child if it has ended; later calls give the same.
  std::optional<ProcessEnd> TryWait();
  // As TryWait, but waits. Bounded only by the child.
  ProcessEnd Wait();

 private:
  Subprocess() = default;
  std::optional<ProcessEnd> WaitWith(int flags);

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd stdout_;
  UniqueFd stderr_;
  std::optional<ProcessEnd> end_;
};

// Appends what can be read from `fd` without blocking. False at its end.
bool ReadAvailable(int fd, std::string* out);

// Runs argv to its end and returns its standard output; standard error is
// inherited.
struct CapturedRun {
  ProcessEnd end;
  std::string output;
};
absl::StatusOr<CapturedRun> RunAndCapture(const std::vector<std::string>& argv);

// The path of this executable, links resolved.
std::string SelfPath();

}  // namespace monsoon
