#include "coordinator/launcher/task_plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/status.h"
#include "common/config/address.h"

namespace monsoon {
namespace {

bool IsExecutableFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string Folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

class Planner {
 public:
  explicit Planner(const PlanOptions& options) : options_(options) {}

  absl::Status Add(TaskRole role, int index, const std::string& address) {
    const std::string binary = BinaryName(role);
    const std::string name =
        absl::StrCat(role == TaskRole::kParameterServer ? "ps" : binary, "/", index);
    if (!IsLocal(address)) {
      plan_.not_local.push_back(absl::StrCat(name, " at ", address));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(std::string path, FindBinary(binary, options_.bin_dir, options_.self_path));
    TaskPlan task{.name = name, .role = role, .index = index, .address = address};
    task.port_file =
        absl::StrCat(options_.port_folder, "/", absl::StrReplaceAll(name, {{"/", "-"}}));
    task.argv.push_back(std::move(path));
    if (role == TaskRole::kCoordinator) {
      task.argv.push_back("serve");
    } else {
      task.argv.push_back(absl::StrCat("--task=", index));
    }
    task.argv.push_back(absl::StrCat("--cluster=", options_.cluster_path));
    task.argv.push_back(absl::StrCat("--port_file=", task.port_file));
    task.argv.push_back("--die_with_parent");
    if (options_.insecure) {
      task.argv.push_back("--insecure");
    }
    if (!options_.verbosity.empty()) {
      task.argv.push_back(absl::StrCat("--verbosity=", options_.verbosity));
    }
    if (!options_.log_file.empty()) {
      task.argv.push_back(absl::StrCat("--log_file=", options_.log_file));
    }
    if (!options_.fault.empty()) {
      task.argv.push_back(absl::StrCat("--fault=", options_.fault));
    }
    for (size_t i = 0; role == TaskRole::kWorker && i < options_.data.size(); ++i) {
      task.argv.push_back(absl::StrCat("--data=", options_.data[i]));
    }
    plan_.tasks.push_back(std::move(task));
    return absl::OkStatus();
  }

  // Each host is asked for once: a look-up may take seconds.
  bool IsLocal(const std::string& address) {
    const absl::StatusOr<Address> parsed = ParseAddress(address);
    if (IsLoopback(address) || !parsed.ok()) {
      return parsed.ok();
    }
    const auto [known, is_new] = own_hosts_.try_emplace(parsed->host, false);
    if (is_new) {
      known->second = options_.is_own_host && options_.is_own_host(parsed->host);
    }
    return known->second;
  }

  UpPlan Take() { return std::move(plan_); }

 private:
  static std::string BinaryName(TaskRole role) {
    switch (role) {
      case TaskRole::kCoordinator:
        return "coordinator";
      case TaskRole::kParameterServer:
        return "ps_server";
      case TaskRole::kWorker:
        return "worker";
    }
    return "";
  }

  const PlanOptions& options_;
  UpPlan plan_;
  std::map<std::string, bool> own_hosts_;
};

}  // namespace

absl::StatusOr<std::string> FindBinary(const std::string& name, const std::string& bin_dir,
                                       const std::string& self_path) {
  std::vector<std::string> candidates;
  if (bin_dir.empty()) {
    const std::string folder = Folder(self_path);
    candidates = {absl::StrCat(folder, "/../", name, "/", name), absl::StrCat(folder, "/", name)};
  } else {
    candidates = {absl::StrCat(bin_dir, "/", name, "/", name), absl::StrCat(bin_dir, "/", name)};
  }
  for (const std::string& candidate : candidates) {
    if (IsExecutableFile(candidate)) {
      return candidate;
    }
  }
  return absl::NotFoundError(absl::StrCat("no executable ", candidates[0], " nor ", candidates[1],
                                          "; build it (bazel build --config=opt //", name, ":",
                                          name, ") or name its folder with --bin_dir"));
}

absl::StatusOr<UpPlan> PlanTasks(const Cluster& cluster, const PlanOptions& options) {
  Planner planner(options);
  RETURN_IF_ERROR(planner.Add(TaskRole::kCoordinator, 0, cluster.coordinator().address()));
  for (int i = 0; i < cluster.ps_size(); ++i) {
    RETURN_IF_ERROR(planner.Add(TaskRole::kParameterServer, i, cluster.ps(i).address()));
  }
  for (int i = 0; i < cluster.worker_size(); ++i) {
    RETURN_IF_ERROR(planner.Add(TaskRole::kWorker, i, cluster.worker(i).address()));
  }
  UpPlan plan = planner.Take();
  if (plan.tasks.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.cluster_path,
        ": no task has a loopback or unix address, or this machine's name or one of its addresses: "
        "there is nothing to start here. It has ",
        absl::StrJoin(plan.not_local, ", ")));
  }
  return plan;
}

}  // namespace monsoon
