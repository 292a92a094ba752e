#include "coordinator/launcher/up.h"

#include <signal.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/config/state_dir.h"
#include "common/process/signal_fd.h"
#include "common/transport/grpc/reachability.h"
#include "common/transport/own_tls.h"
#include "coordinator/launcher/port_folder.h"
#include "coordinator/launcher/port_probe.h"
#include "coordinator/launcher/up_lock.h"

namespace monsoon {
namespace {

constexpr int kExitConfiguration = 2;
// The coordinator's verdict over a lost shard, and a watcher's next look at it
// (1 s), come within this after the cluster's lost_after_ms.
constexpr absl::Duration kNoticeMargin = absl::Milliseconds(1300);

// Each task would end for it.
absl::Status CheckExposure(const std::vector<TaskPlan>& tasks, bool allowed) {
  for (const TaskPlan& task : tasks) {
    if (const absl::Status status = CheckReachability(task.address, allowed); !status.ok()) {
      return Annotate(status, task.name);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAddresses(const std::vector<TaskPlan>& tasks) {
  std::vector<std::string> busy;
  absl::StatusCode code = absl::StatusCode::kOk;
  for (const TaskPlan& task : tasks) {
    if (const absl::Status status = CheckAddressFree(task.address); !status.ok()) {
      code = status.code();
      busy.push_back(absl::StrCat(task.name, ": ", status.message()));
    }
  }
  return busy.empty() ? absl::OkStatus()
                      : absl::Status(code, absl::StrCat(absl::StrJoin(busy, "\nup: "),
                                                        "\nup: stop what holds it, or choose "
                                                        "other addresses in the cluster file"));
}

bool RunsCoordinator(const std::vector<TaskPlan>& tasks) {
  return std::ranges::any_of(
      tasks, [](const TaskPlan& task) { return task.role == TaskRole::kCoordinator; });
}

absl::StatusOr<int> TryRunUp(const Cluster& cluster, UpOptions options) {
  // Before the port folder exists: an interrupt must remove it.
  ASSIGN_OR_RETURN(SignalFd signals, SignalFd::Create({SIGINT, SIGTERM, SIGHUP}));
  // A reader of our output may go away; the cluster stays.
  signal(SIGPIPE, SIG_IGN);
  ASSIGN_OR_RETURN(const std::unique_ptr<PortFolder> folder,
                   PortFolder::Make(PortFolder::DefaultRoot()));
  options.plan.port_folder = folder->path();
  ASSIGN_OR_RETURN(UpPlan plan, PlanTasks(cluster, options.plan));
  RETURN_IF_ERROR(CheckExposure(
      plan.tasks,
      options.plan.insecure || HasCredential(cluster.name(), &SystemEnvironmentVariable)));
  RETURN_IF_ERROR(CheckAddresses(plan.tasks));
  if (!plan.not_local.empty()) {
    WriteFully(options.supervisor.err_fd,
               absl::StrCat("up: not local, start them on their machines: ",
                            absl::StrJoin(plan.not_local, ", "), "\n"));
  }
  options.supervisor.cluster_name = cluster.name();
  // Where that is an error, the tasks say so.
  options.supervisor.state_dir =
      ResolveStateDir(cluster, options.plan.cluster_path, &SystemEnvironmentVariable).value_or("");
  if (options.supervisor.shard_loss_grace == absl::ZeroDuration()) {
    options.supervisor.shard_loss_grace =
        absl::Milliseconds(cluster.lost_after_ms()) + kNoticeMargin;
  }
  // Without it commands that meet a coordinator on its restart are told that there is none.
  absl::StatusOr<FileLock> lock = absl::NotFoundError("no coordinator that keeps its jobs");
  if (RunsCoordinator(plan.tasks) && !options.supervisor.state_dir.empty()) {
    lock = HoldUpLock(options.supervisor.state_dir);
  }
  Supervisor supervisor(std::move(plan.tasks), folder->path(), options.supervisor, &signals);
  return supervisor.Run();
}

}  // namespace

int RunUp(const Cluster& cluster, UpOptions options) {
  const int err_fd = options.supervisor.err_fd;
  const absl::StatusOr<int> result = TryRunUp(cluster, std::move(options));
  if (!result.ok()) {
    WriteFully(err_fd, absl::StrCat("up: ", result.status().message(), "\n"));
    return kExitConfiguration;
  }
  return *result;
}

}  // namespace monsoon
