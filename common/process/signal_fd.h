// SignalFd: takes signals as data instead of handlers. Create it before the
// first thread starts: threads inherit the blocked signals.
//
// Thread safety: one reader.
#pragma once

#include <initializer_list>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/process/unique_fd.h"

namespace monsoon {

class SignalFd {
 public:
  // Blocks `signals` for this thread and those that it starts.
  static absl::StatusOr<SignalFd> Create(std::initializer_list<int> signals);

  // Readable when a signal waits.
  int fd() const { return fd_.get(); }
  // The next signal, if one waits.
  std::optional<int> Next();
  // Waits for a signal for at most `timeout`.
  std::optional<int> WaitFor(absl::Duration timeout);

 private:
  explicit SignalFd(int fd) : fd_(fd) {}

  UniqueFd fd_;
};

}  // namespace monsoon
