#include "coordinator/chaos/stop_guard.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace monsoon {
namespace {

// Stopped at one time; each costs the child a descriptor.
constexpr int kMostHeld = 512;

struct Message {
  pid_t pid = 0;
  bool hold = false;  // with a pidfd; else: release
};

struct Held {
  pid_t pid;
  int pidfd;
};

// A message and the descriptor that came with it, or -1. False: the parent has ended.
bool Receive(int socket, Message* message, int* fd) {
  iovec data{message, sizeof(*message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got;
  do {
    got = recvmsg(socket, &header, 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(*message))) {
    return false;
  }
  const cmsghdr* const extra = CMSG_FIRSTHDR(&header);
  *fd = -1;
  if (extra != nullptr && extra->cmsg_type == SCM_RIGHTS) {
    memcpy(fd, CMSG_DATA(extra), sizeof(*fd));
  }
  return true;
}

// Runs with all signals blocked. Async-signal-safe calls only: other code may have been at
// work when it was forked.
[[noreturn]] void RunGuard(int socket) {
  prctl(PR_SET_NAME, "chaos-guard");
  // Whoever reads what the parent writes must see its end.
  if (dup2(socket, STDIN_FILENO) < 0) {
    _exit(1);
  }
  if (syscall(SYS_close_range, 1, ~0U, 0) != 0) {
    for (int fd = 1; fd < 65536; ++fd) {
      close(fd);
    }
  }
  Held held[kMostHeld];
  int count = 0;
  Message message;
  int fd = -1;
  while (Receive(STDIN_FILENO, &message, &fd)) {
    if (message.hold && fd >= 0 && count < kMostHeld) {
      held[count++] = {message.pid, fd};
      continue;
    }
    for (int i = 0; i < count; ++i) {
      if (held[i].pid == message.pid) {
        close(held[i].pidfd);
        held[i] = held[--count];
        break;
      }
    }
  }
  for (int i = 0; i < count; ++i) {
    syscall(SYS_pidfd_send_signal, held[i].pidfd, SIGCONT, nullptr, 0);
  }
  _exit(0);
}

// An errno, or 0.
int Send(int socket, Message message, int fd) {
  iovec data{&message, sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* const extra = CMSG_FIRSTHDR(&header);
    extra->cmsg_level = SOL_SOCKET;
    extra->cmsg_type = SCM_RIGHTS;
    extra->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(extra), &fd, sizeof(fd));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StopGuard>> StopGuard::Start() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a pair of sockets");
  }
  UniqueFd mine(fds[0]);
  const UniqueFd theirs(fds[1]);
  // What a terminal sends to all that run in it must not reach the child, from its first
  // moment on.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t child = fork();
  const int error = errno;
  if (child == 0) {
    RunGuard(theirs.get());
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) {
    return absl::ErrnoToStatus(error, "cannot fork");
  }
  return std::unique_ptr<StopGuard>(new StopGuard(child, std::move(mine)));
}

StopGuard::~StopGuard() {
  socket_.reset();
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::Status StopGuard::Hold(pid_t pid, int pidfd) {
  if (held_ >= kMostHeld) {
    return absl::FailedPreconditionError("too many processes are stopped at one time");
  }
  if (Send(socket_.get(), {.pid = pid, .hold = true}, pidfd) != 0) {
    return absl::FailedPreconditionError(
        "the process that lets stopped tasks go on is gone: nothing is stopped without it");
  }
  ++held_;
  return absl::OkStatus();
}

void StopGuard::Release(pid_t pid) {
  // An error: nobody is left who could hold it.
  if (Send(socket_.get(), {.pid = pid, .hold = false}, -1) == 0) {
    --held_;
  }
}

}  // namespace monsoon
