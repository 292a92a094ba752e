// StopGuard: a child process that lets stopped processes go on when this one has ended,
// however it has ended: SIGKILL, a closed terminal, a crash.
//
// Start forks: call it while the process has one thread. The child sleeps until it is told
// something, takes no signal but SIGKILL, and ends with its parent.
//
// Thread safety: none.
#pragma once

#include <sys/types.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/unique_fd.h"

namespace monsoon {

class StopGuard {
 public:
  static absl::StatusOr<std::unique_ptr<StopGuard>> Start();
  // Sends SIGCONT to all that are held, and reaps the child.
  ~StopGuard();
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

  // From the return on the process behind `pidfd` will not stay stopped. Before it is
  // stopped. An error: the child is gone, or holds as many as it can.
  absl::Status Hold(pid_t pid, int pidfd);
  // It goes on by now, or has ended.
  void Release(pid_t pid);

 private:
  StopGuard(pid_t child, UniqueFd socket) : child_(child), socket_(std::move(socket)) {}

  const pid_t child_;
  UniqueFd socket_;
  int held_ = 0;
};

}  // namespace monsoon
