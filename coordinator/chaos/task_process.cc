#include "coordinator/chaos/task_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/shorten.h"
#include "common/base/status.h"
#include "common/process/unique_fd.h"
#include "coordinator/chaos/stop_guard.h"

namespace monsoon {
namespace {

constexpr size_t kMostShown = 120;

std::string Who(const TaskView& task) { return absl::StrCat(task.name, " (pid ", task.pid, ")"); }

// The value of --NAME in both its forms; the last one counts, as for the program.
std::optional<std::string> FlagOf(std::span<const std::string> argv, const std::string& name) {
  std::optional<std::string> value;
  for (size_t i = 1; i < argv.size(); ++i) {
    absl::string_view arg = argv[i];
    if (absl::ConsumePrefix(&arg, absl::StrCat("--", name, "="))) {
      value = std::string(arg);
    } else if (argv[i] == absl::StrCat("--", name) && i + 1 < argv.size()) {
      value = argv[i + 1];
    }
  }
  return value;
}

std::string ProgramOf(const TaskView& task) {
  const std::string role = task.name.substr(0, task.name.find('/'));
  return role == "ps" ? "ps_server" : role;
}

absl::StatusOr<std::vector<std::string>> ReadCommandLine(uint32_t pid) {
  const std::string path = absl::StrCat("/proc/", pid, "/cmdline");
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " cannot be read"));
  }
  return std::vector<std::string>(
      absl::StrSplit(absl::StripSuffix(text, std::string(1, '\0')), '\0'));
}

class PidfdProcess : public TaskProcess {
 public:
  PidfdProcess(const TaskView& task, UniqueFd pidfd, StopGuard* guard)
      : task_(task), pidfd_(std::move(pidfd)), guard_(*guard) {}
  ~PidfdProcess() override { Continue().IgnoreError(); }

  absl::Status Kill() override { return Signal(SIGKILL); }
  absl::Status Terminate() override { return Signal(SIGTERM); }
  absl::Status Stop() override {
    if (!held_) {
      RETURN_IF_ERROR(
          Annotate(guard_.Hold(static_cast<pid_t>(task_.pid), pidfd_.get()), Who(task_)));
      held_ = true;
    }
    return Signal(SIGSTOP);
  }
  absl::Status Continue() override {
    if (!held_) {
      return absl::OkStatus();
    }
    const absl::Status status = Signal(SIGCONT);
    guard_.Release(static_cast<pid_t>(task_.pid));
    held_ = false;
    return status;
  }

  absl::Status Signal(int number) {
    if (syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) == 0) {
      return absl::OkStatus();
    }
    if (errno == ESRCH) {
      return absl::NotFoundError(absl::StrCat(Who(task_), " has ended"));
    }
    if (errno == EPERM) {
      return absl::PermissionDeniedError(
          absl::StrCat(Who(task_), " belongs to another user: run the command as that one"));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat(Who(task_), " cannot be signalled"));
  }

  bool ended() const {
    pollfd end{.fd = pidfd_.get(), .events = POLLIN};
    return poll(&end, 1, 0) == 1;
  }

 private:
  const TaskView task_;
  const UniqueFd pidfd_;
  StopGuard& guard_;
  bool held_ = false;  // by the guard: it is stopped, or may be
};

class SystemTaskProcesses : public TaskProcesses {
 public:
  explicit SystemTaskProcesses(std::unique_ptr<StopGuard> guard) : guard_(std::move(guard)) {}

  absl::StatusOr<std::unique_ptr<TaskProcess>> Open(const TaskView& task) override {
    if (!task.elsewhere.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          Who(task), " is not signalled: ", task.elsewhere, "; only tasks of this machine are"));
    }
    // First of all: should the pid pass to another process, this stays the one that had it.
    UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(task.pid), 0)));
    if (!pidfd.valid()) {
      return errno == ESRCH ? absl::NotFoundError(absl::StrCat(Who(task), " is not there"))
                            : absl::FailedPreconditionError(
                                  absl::StrCat(Who(task), " is no process that can be signalled: ",
                                               absl::ErrnoToStatus(errno, "pidfd_open").message()));
    }
    auto process = std::make_unique<PidfdProcess>(task, std::move(pidfd), guard_.get());
    const absl::StatusOr<std::vector<std::string>> argv = ReadCommandLine(task.pid);
    // What was read is of the process held, since that is still there.
    if (process->ended()) {
      return absl::NotFoundError(absl::StrCat(Who(task), " has ended"));
    }
    if (!argv.ok()) {
      return Annotate(argv.status(), absl::StrCat(Who(task), " is not signalled"));
    }
    RETURN_IF_ERROR(CheckCommandLine(task, *argv));
    RETURN_IF_ERROR(process->Signal(0));
    return process;
  }

 private:
  const std::unique_ptr<StopGuard> guard_;
};

}  // namespace

absl::Status CheckCommandLine(const TaskView& task, std::span<const std::string> argv) {
  const std::string program = ProgramOf(task);
  const std::string number = task.name.substr(task.name.find('/') + 1);
  const std::string called = argv.empty() ? "" : argv[0].substr(argv[0].rfind('/') + 1);
  const std::optional<std::string> flag = FlagOf(argv, "task");
  std::vector<std::string> shown(argv.begin(), argv.end());
  if (!shown.empty()) {
    shown[0] = called;
  }
  std::string expected = program;
  bool right = called == program;
  if (program == "coordinator") {
    expected = "coordinator serve";
    right = right && argv.size() > 1 && argv[1] == "serve";
  } else if (task.guest) {
    expected = "worker without --task";
    right = right && !flag.has_value() && std::ranges::none_of(argv, [](const std::string& arg) {
              return arg == "--evaluate" || arg == "--predict";
            });
  } else {
    expected = absl::StrCat(program, " --task=", number);
    right = right && flag == number;
  }
  return right ? absl::OkStatus()
               : absl::FailedPreconditionError(absl::StrCat(
                     Who(task), " is not signalled: that process is `",
                     Shorten(absl::StrJoin(shown, " "), kMostShown), "`, and ", task.name, " is a ",
                     expected, "; do coordinator and command see the same processes?"));
}

absl::StatusOr<std::unique_ptr<TaskProcesses>> MakeTaskProcesses() {
  ASSIGN_OR_RETURN(std::unique_ptr<StopGuard> guard, StopGuard::Start());
  return std::make_unique<SystemTaskProcesses>(std::move(guard));
}

}  // namespace monsoon
