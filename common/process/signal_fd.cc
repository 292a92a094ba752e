#include "common/process/signal_fd.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/clock.h"

namespace monsoon {

absl::StatusOr<SignalFd> SignalFd::Create(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) {
    sigaddset(&set, signal);
  }
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  const int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, "signalfd");
  }
  return SignalFd(fd);
}

std::optional<int> SignalFd::Next() {
  signalfd_siginfo info;
  ssize_t got;
  do {
    got = read(fd_.get(), &info, sizeof(info));
  } while (got < 0 && errno == EINTR);
  if (got != sizeof(info)) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

std::optional<int> SignalFd::WaitFor(absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real()->Now() + timeout;
  while (true) {
    if (const std::optional<int> signal = Next(); signal.has_value()) {
      return signal;
    }
    const absl::Duration left = deadline - Clock::Real()->Now();
    if (left <= absl::ZeroDuration()) {
      return std::nullopt;
    }
    pollfd readable{.fd = fd_.get(), .events = POLLIN};
    // Rounded up, so that the last millisecond is not spent spinning.
    poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
  }
}

}  // namespace monsoon
