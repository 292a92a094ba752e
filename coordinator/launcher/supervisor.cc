#include "coordinator/launcher/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "coordinator/launcher/restart_backoff.h"
#include "coordinator/launcher/root_cause_box.h"

namespace monsoon {
namespace {

constexpr int kExitTaskDied = 1;
constexpr int kExitTimeout = 4;
constexpr int kExitInterrupted = 130;
constexpr int kExitTerminated = 143;

bool IsWorker(const SupervisedTask& task) { return task.plan().role == TaskRole::kWorker; }

}  // namespace

const char* RestartPolicyName(RestartPolicy policy) {
  switch (policy) {
    case RestartPolicy::kNever:
      return "never";
    case RestartPolicy::kWorkers:
      return "workers";
    case RestartPolicy::kAll:
      return "all";
  }
  return "";
}

Supervisor::Supervisor(std::vector<TaskPlan> plan, std::string port_folder,
                       SupervisorOptions options, SignalFd* signals)
    : port_folder_(std::move(port_folder)), options_(std::move(options)), signals_(signals) {
  const OutputFds output =
      options_.quiet ? OutputFds{} : OutputFds{options_.out_fd, options_.err_fd};
  for (TaskPlan& task : plan) {
    const RestartBackoff backoff(
        task.role == TaskRole::kWorker ? options_.first_worker_backoff : options_.first_backoff,
        options_.longest_backoff, options_.max_deaths_in_a_row);
    tasks_.push_back(std::make_unique<SupervisedTask>(std::move(task), output, backoff,
                                                      options_.state_dir, clock_));
  }
}

void Supervisor::Say(absl::string_view text) { WriteFully(options_.err_fd, text); }

absl::StatusOr<int> Supervisor::Run() {
  RETURN_IF_ERROR(StartAll());
  while (phase_ != Phase::kStopped) {
    PollOnce();
    for (const auto& task : tasks_) {
      if (const std::optional<ProcessEnd> end = task->TakeEnd(); end.has_value()) {
        HandleEnd(task.get(), *end);
      }
    }
    if (phase_ == Phase::kRunning) {
      RestartDue();
    }
    if (phase_ == Phase::kRunning) {
      CheckReady();
    } else {
      AdvanceStop();
    }
  }
  return exit_code_;
}

absl::Status Supervisor::StartAll() {
  folder_events_.reset(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!folder_events_.valid() || inotify_add_watch(folder_events_.get(), port_folder_.c_str(),
                                                   IN_CLOSE_WRITE | IN_MOVED_TO) < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot watch ", port_folder_));
  }
  ready_deadline_ = clock_->Now() + options_.ready_timeout;
  for (const auto& task : tasks_) {
    RETURN_IF_ERROR(task->Start());
  }
  return absl::OkStatus();
}

// Until when poll may sleep.
absl::Duration Supervisor::NextDeadline() const {
  if (phase_ != Phase::kRunning) {
    return killed_ ? absl::InfiniteDuration() : stop_deadline_;
  }
  absl::Duration next = ready_ ? absl::InfiniteDuration() : ready_deadline_;
  for (const auto& task : tasks_) {
    if (task->restart_at.has_value()) {
      next = std::min(next, *task->restart_at);
    }
  }
  return next;
}

void Supervisor::PollOnce() {
  std::vector<pollfd> fds = {{.fd = signals_->fd(), .events = POLLIN},
                             {.fd = folder_events_.get(), .events = POLLIN}};
  for (const auto& task : tasks_) {
    // poll ignores an entry with fd -1.
    fds.push_back({.fd = task->pidfd(), .events = POLLIN});
    fds.push_back({.fd = task->stdout_fd(), .events = POLLIN});
    fds.push_back({.fd = task->stderr_fd(), .events = POLLIN});
  }
  const absl::Duration next = NextDeadline();
  int timeout_ms = -1;
  if (next != absl::InfiniteDuration()) {
    const absl::Duration left = std::max(next - clock_->Now(), absl::ZeroDuration());
    timeout_ms =
        static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
  }
  if (poll(fds.data(), fds.size(), timeout_ms) <= 0) {
    return;
  }
  while (const std::optional<int> signal = signals_->Next()) {
    HandleSignal(*signal);
  }
  if (fds[1].revents != 0) {
    std::string ignored;  // the files themselves tell
    ReadAvailable(folder_events_.get(), &ignored);
    for (const auto& task : tasks_) {
      task->CheckListening();
    }
  }
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (fds[3 * i + 3].revents != 0) {
      tasks_[i]->ForwardStdout();
    }
    if (fds[3 * i + 4].revents != 0) {
      tasks_[i]->ForwardStderr();
    }
  }
}

void Supervisor::HandleSignal(int signal) {
  if (phase_ == Phase::kRunning || phase_ == Phase::kLingering) {
    Say(absl::StrCat("up: stopping the cluster (SIG", sigabbrev_np(signal),
                     "); once more to kill it\n"));
    BeginStop(signal == SIGINT ? kExitInterrupted : kExitTerminated);
    return;
  }
  KillAll();
}

void Supervisor::KillAll() {
  std::vector<std::string> names;
  for (const auto& task : tasks_) {
    if (task->running()) {
      names.push_back(task->plan().name);
      task->Kill();
    }
  }
  if (!killed_ && !names.empty()) {
    Say(absl::StrCat("up: killing ", absl::StrJoin(names, ", "), "\n"));
  }
  killed_ = true;
}

bool Supervisor::WantsRestart(const SupervisedTask& task) const {
  return options_.restart == RestartPolicy::kAll ||
         (options_.restart == RestartPolicy::kWorkers && IsWorker(task));
}

// What the end of `task` leads to, in words.
std::string Supervisor::Consequence(SupervisedTask* task) {
  if (phase_ == Phase::kRunning && WantsRestart(*task)) {
    const absl::Duration now = clock_->Now();
    task->restart_at = task->backoff.Died(now, task->life());
    if (!task->restart_at.has_value()) {
      return GivenUp(*task);
    }
    std::string text =
        absl::StrFormat("it starts again in %g s, restart %d (--restart=%s)",
                        absl::ToDoubleSeconds(*task->restart_at - now), task->backoff.restarts(),
                        RestartPolicyName(options_.restart));
    if (task->backoff.deaths_in_a_row() > 0 && task->backoff.max_deaths() > 0) {
      absl::StrAppend(&text, "; death ", task->backoff.deaths_in_a_row(), " of ",
                      task->backoff.max_deaths(), " in a row");
    }
    return text;
  }
  if (phase_ == Phase::kRunning && IsWorker(*task)) {
    return absl::StrCat(
        "the job goes on without it (--restart=", RestartPolicyName(options_.restart), ")");
  }
  return "the cluster cannot go on without it: stopping all tasks";
}

std::string Supervisor::GivenUp(const SupervisedTask& task) const {
  return absl::StrCat(
      "it has died ", task.backoff.deaths_in_a_row(),
      " times in a row and is not started again (--restart_limit=", task.backoff.max_deaths(),
      "): ", IsWorker(task) ? "the job goes on without it" : "stopping all tasks");
}

void Supervisor::HandleEnd(SupervisedTask* task, const ProcessEnd& end) {
  if (phase_ != Phase::kRunning && phase_ != Phase::kLingering) {
    return;
  }
  if (phase_ == Phase::kRunning && IsWorker(*task) && end.ok()) {
    Say(absl::StrCat("up: ", task->plan().name, " (pid ", task->pid(),
                     ") has left as it was told; it is not started again\n"));
    return;
  }
  const std::string consequence = Consequence(task);
  Say(RootCauseBox(task->plan().name, task->pid(), end, task->lived(), task->last_lines(),
                   consequence));
  if (task->restart_at.has_value() || IsWorker(*task)) {
    return;
  }
  if (task->plan().role == TaskRole::kParameterServer && !WantsRestart(*task) &&
      AnyRunning(/*workers=*/false)) {
    if (phase_ == Phase::kRunning) {
      phase_ = Phase::kLingering;
      exit_code_ = kExitTaskDied;
      stop_deadline_ = clock_->Now() + options_.shard_loss_grace;
    }
    return;
  }
  BeginStop(kExitTaskDied);
}

void Supervisor::RestartDue() {
  for (const auto& task : tasks_) {
    if (!task->restart_at.has_value() || *task->restart_at > clock_->Now()) {
      continue;
    }
    task->restart_at.reset();
    if (const absl::Status status = task->Start(); !status.ok()) {
      Say(absl::StrCat("up: ", task->plan().name, " cannot be started again: ", status.message(),
                       "\n"));
      task->restart_at = task->backoff.StartFailed(clock_->Now());
      if (!task->restart_at.has_value()) {
        Say(absl::StrCat("up: ", task->plan().name, ": ", GivenUp(*task), "\n"));
        if (!IsWorker(*task)) {
          BeginStop(kExitTaskDied);
          return;
        }
      }
      continue;
    }
    Say(absl::StrCat("up: ", task->plan().name, " started again, pid ", task->pid(), "\n"));
  }
}

// Workers that have died are not waited for beyond the deadline: their box has
// been shown, and the others can begin.
void Supervisor::CheckReady() {
  if (ready_) {
    return;
  }
  std::vector<std::string> missing;
  bool only_dead_workers = true;
  int shards = 0;
  int workers = 0;
  std::string coordinator = "elsewhere";
  for (const auto& task : tasks_) {
    const TaskRole role = task->plan().role;
    if (task->CheckListening()) {
      shards += role == TaskRole::kParameterServer;
      workers += role == TaskRole::kWorker;
      coordinator = role == TaskRole::kCoordinator ? task->plan().address : coordinator;
    } else if (task->running() || task->restart_at.has_value()) {
      missing.push_back(absl::StrCat(task->plan().name, " (", task->plan().address, ")"));
      only_dead_workers &= IsWorker(*task) && task->backoff.restarts() > 0;
    }
  }
  const bool late = clock_->Now() >= ready_deadline_;
  if (missing.empty() || (late && only_dead_workers)) {
    ready_ = true;
    Say(absl::StrCat("up: cluster \"", options_.cluster_name, "\" is ready: coordinator ",
                     coordinator, ", ", shards, " ps, ", workers,
                     workers == 1 ? " worker" : " workers",
                     " (--restart=", RestartPolicyName(options_.restart), ")\n"));
  } else if (late) {
    Say(absl::StrCat("up: not listening after ", absl::FormatDuration(options_.ready_timeout), ": ",
                     absl::StrJoin(missing, ", "), "; stopping the cluster\n"));
    BeginStop(kExitTimeout);
  }
}

bool Supervisor::AnyRunning(bool workers) const {
  return std::any_of(tasks_.begin(), tasks_.end(), [workers](const auto& task) {
    return task->running() && IsWorker(*task) == workers;
  });
}

// Since the stop began.
absl::Duration Supervisor::StopTimeout(Phase phase) const {
  return phase == Phase::kStoppingWorkers ? options_.worker_stop_timeout : options_.stop_timeout;
}

void Supervisor::BeginStop(int exit_code) {
  exit_code_ = exit_code;
  stop_began_ = clock_->Now();
  EnterStopPhase(Phase::kStoppingWorkers);
  AdvanceStop();
}

void Supervisor::EnterStopPhase(Phase phase) {
  phase_ = phase;
  stop_deadline_ = stop_began_ + StopTimeout(phase);
  for (const auto& task : tasks_) {
    if (IsWorker(*task) == (phase == Phase::kStoppingWorkers)) {
      task->Terminate();
    }
  }
}

void Supervisor::AdvanceStop() {
  if (phase_ == Phase::kLingering) {
    if (clock_->Now() >= stop_deadline_) {
      BeginStop(exit_code_);
    }
    return;
  }
  const bool workers = phase_ == Phase::kStoppingWorkers;
  if (!AnyRunning(workers)) {
    if (workers) {
      EnterStopPhase(Phase::kStoppingOthers);
    }
    if (!AnyRunning(/*workers=*/false)) {
      phase_ = Phase::kStopped;
    }
    return;
  }
  if (clock_->Now() < stop_deadline_ || killed_) {
    return;
  }
  for (const auto& task : tasks_) {
    if (task->running() && IsWorker(*task) == workers) {
      Say(absl::StrCat("up: ", task->plan().name, " did not stop within ",
                       absl::FormatDuration(StopTimeout(phase_)), ": killing it\n"));
      task->Kill();
    }
  }
  // SIGKILL cannot be missed: what is left ends by its pidfd.
  stop_deadline_ = absl::InfiniteDuration();
}

}  // namespace monsoon
