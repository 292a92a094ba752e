#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/json/json_writer.h"
#include "coordinator/cli/job_commands.h"

namespace monsoon {
namespace {

// The coordinator, which answers, and all tasks that it tells of.
std::vector<TaskStatus> AllTasks(const InfoReply& info, const std::string& coordinator) {
  std::vector<TaskStatus> tasks(1);
  tasks[0].set_task("coordinator/0");
  tasks[0].set_address(coordinator);
  tasks[0].set_state("UP");
  tasks[0].set_pid(info.pid());
  tasks[0].set_host(info.host());
  tasks[0].set_silent_s(0);
  tasks[0].set_trouble(info.trouble());
  tasks.insert(tasks.end(), info.task().begin(), info.task().end());
  return tasks;
}

std::string TasksJson(const InfoReply& info, const std::vector<TaskStatus>& tasks) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", 1).Member("cluster", info.cluster());
  json.Key("tasks").BeginArray();
  for (const TaskStatus& task : tasks) {
    json.BeginObject().Member("task", task.task()).Member("state", task.state());
    json.Member("pid", task.pid()).Member("host", task.host()).Member("address", task.address());
    json.Member("silent_s",
                task.has_silent_s() ? std::make_optional(task.silent_s()) : std::nullopt);
    if (!task.trouble().empty()) {
      json.Member("trouble", task.trouble());
    }
    json.EndObject();
  }
  return json.EndArray().EndObject().text();
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string TasksText(const std::vector<TaskStatus>& tasks) {
  size_t address = 7;
  size_t host = 4;
  for (const TaskStatus& task : tasks) {
    address = std::max(address, task.address().size());
    host = std::max(host, task.host().size());
  }
  const auto line = [&](const std::string& name, const std::string& state, const std::string& pid,
                        const std::string& host_name, const std::string& at,
                        const std::string& seen) {
    return absl::StrFormat("%-13s  %-10s  %-7s  %-*s  %-*s  %s\n", name, state, pid,
                           static_cast<int>(host), host_name, static_cast<int>(address), at, seen);
  };
  std::string text = line("task", "state", "pid", "host", "address", "seen");
  for (const TaskStatus& task : tasks) {
    text +=
        line(task.task(), task.state(), task.pid() == 0 ? "-" : absl::StrFormat("%d", task.pid()),
             OrDash(task.host()), OrDash(task.address()),
             task.has_silent_s() ? absl::StrFormat("%.1f s ago", task.silent_s()) : "-");
  }
  for (const TaskStatus& task : tasks) {
    if (!task.trouble().empty()) {
      text += absl::StrFormat("%s %s\n", task.task(), task.trouble());
    }
  }
  return text;
}

}  // namespace

int RunTasks(Invocation& call) {
  bool json = false;
  ClusterFlag cluster(&call);
  call.flags().Add("json", &json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(0, 0)) {
    return *code;
  }
  const absl::StatusOr<std::unique_ptr<JobClient>> client = cluster.Connect();
  if (!client.ok()) {
    return call.Fail(client.status());
  }
  const absl::StatusOr<InfoReply> info = (*client)->Info();
  if (!info.ok()) {
    return call.Fail(info.status());
  }
  const absl::StatusOr<LoadedCluster> loaded = cluster.Load();
  const std::vector<TaskStatus> tasks =
      AllTasks(*info, loaded.ok() ? loaded->cluster.coordinator().address() : "");
  if (json) {
    call.Print(TasksJson(*info, tasks));
  } else {
    *call.env().out << TasksText(tasks);
  }
  return kExitOk;
}

}  // namespace monsoon
