#include "common/process/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a pipe");
  }
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

void SetNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

struct ChildPlan {
  char* const* argv;
  pid_t parent;
  bool own_group;
  int stdout_fd;  // -1: inherited
  int stderr_fd;
  int error_fd;  // takes errno when exec fails
};

// Between fork and exec: async-signal-safe calls only.
[[noreturn]] void RunChild(const ChildPlan& plan) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) {
    _exit(128 + SIGKILL);
  }
  if (plan.own_group) {
    setpgid(0, 0);
  }
  for (const int ignored : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) {
    signal(ignored, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null_fd = open("/dev/null", O_RDONLY);
  bool ready = null_fd >= 0 && dup2(null_fd, STDIN_FILENO) >= 0;
  if (null_fd > STDERR_FILENO) {
    close(null_fd);
  }
  if (plan.stdout_fd >= 0) {
    ready = ready && dup2(plan.stdout_fd, STDOUT_FILENO) >= 0;
  }
  if (plan.stderr_fd >= 0) {
    ready = ready && dup2(plan.stderr_fd, STDERR_FILENO) >= 0;
  }
  if (ready) {
    execv(plan.argv[0], plan.argv);
  }
  const int error = errno;
  // Nobody could do anything about a failure here.
  [[maybe_unused]] const ssize_t written = write(plan.error_fd, &error, sizeof(error));
  _exit(127);
}

// The child's errno, or 0 once it has executed the program.
int ReadExecError(int fd) {
  int error = 0;
  ssize_t got;
  do {
    got = read(fd, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

}  // namespace

std::string ProcessEnd::Describe() const {
  if (!signaled) {
    return absl::StrCat("exited with code ", code);
  }
  const char* name = sigabbrev_np(code);
  return absl::StrCat("killed by signal ", code,
                      name == nullptr ? "" : absl::StrCat(" (SIG", name, ")"));
}

absl::StatusOr<Subprocess> Subprocess::Start(const std::vector<std::string>& argv,
                                             Options options) {
  CHECK(!argv.empty());
  ASSIGN_OR_RETURN(Pipe error_pipe, MakePipe());
  Pipe out;
  Pipe err;
  if (options.pipe_stdout) {
    ASSIGN_OR_RETURN(out, MakePipe());
  }
  if (options.pipe_stderr) {
    ASSIGN_OR_RETURN(err, MakePipe());
  }
  std::vector<char*> pointers;
  for (const std::string& argument : argv) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  const ChildPlan plan{pointers.data(), getpid(),        options.own_group,
                       out.write.get(), err.write.get(), error_pipe.write.get()};
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(argv[0], ": cannot fork"));
  }
  if (pid == 0) {
    RunChild(plan);
  }
  Subprocess child;
  child.pid_ = pid;
  // The pid is ours until it is reaped, so the pidfd is the child's.
  child.pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const int pidfd_error = child.pidfd_.valid() ? 0 : errno;
  error_pipe.write.reset();
  const int exec_error = ReadExecError(error_pipe.read.get());
  if (exec_error != 0 || pidfd_error != 0) {
    child.Signal(SIGKILL);
    child.Wait();
    return exec_error != 0 ? absl::ErrnoToStatus(exec_error, absl::StrCat(argv[0], ": cannot run"))
                           : absl::ErrnoToStatus(pidfd_error, "pidfd_open");
  }
  child.stdout_ = std::move(out.read);
  child.stderr_ = std::move(err.read);
  for (const int fd : {child.stdout_.get(), child.stderr_.get()}) {
    if (fd >= 0) {
      SetNonBlocking(fd);
    }
  }
  return child;
}

Subprocess& Subprocess::operator=(Subprocess&& other) {
  CHECK(this != &other);
  this->~Subprocess();
  return *new (this) Subprocess(std::move(other));
}

Subprocess::~Subprocess() {
  // A moved-from object has no pidfd.
  if (pidfd_.valid() && !end_.has_value()) {
    Signal(SIGKILL);
    Wait();
  }
}

void Subprocess::Signal(int signal) {
  if (end_.has_value()) {
    return;
  }
  if (pidfd_.valid()) {
    syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
  } else {
    kill(pid_, signal);
  }
}

std::optional<ProcessEnd> Subprocess::WaitWith(int flags) {
  if (end_.has_value()) {
    return end_;
  }
  siginfo_t info{};
  int result;
  do {
    result = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | flags);
  } while (result != 0 && errno == EINTR);
  // Only this object reaps the child.
  CHECK_EQ(result, 0);
  if (info.si_pid != 0) {
    end_ = ProcessEnd{.signaled = info.si_code != CLD_EXITED, .code = info.si_status};
  }
  return end_;
}

std::optional<ProcessEnd> Subprocess::TryWait() { return WaitWith(WNOHANG); }
ProcessEnd Subprocess::Wait() { return *WaitWith(0); }

bool ReadAvailable(int fd, std::string* out) {
  std::array<char, 16384> buffer;
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got > 0) {
      out->append(buffer.data(), static_cast<size_t>(got));
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
}

absl::StatusOr<CapturedRun> RunAndCapture(const std::vector<std::string>& argv) {
  // Ctrl-C must reach the child, so it stays in our process group.
  ASSIGN_OR_RETURN(Subprocess child,
                   Subprocess::Start(argv, {.pipe_stderr = false, .own_group = false}));
  CapturedRun run;
  while (ReadAvailable(child.stdout_fd(), &run.output)) {
    pollfd readable{.fd = child.stdout_fd(), .events = POLLIN};
    poll(&readable, 1, -1);
  }
  run.end = child.Wait();
  return run;
}

std::string SelfPath() {
  std::string path(4096, '\0');
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  CHECK(length > 0);
  path.resize(static_cast<size_t>(length));
  return path;
}

}  // namespace monsoon
