#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/json/json_writer.h"
#include "coordinator/cli/job_commands.h"
#include "coordinator/cli/patience.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(200);

// The number of "worker/3".
std::optional<uint32_t> WorkerOf(absl::string_view task) {
  uint32_t worker = 0;
  return absl::ConsumePrefix(&task, "worker/") && absl::SimpleAtoi(task, &worker)
             ? std::optional(worker)
             : std::nullopt;
}

// Whether its process, the one that was told to, has gone.
bool HasGone(const InfoReply& info, const TaskStatus& told) {
  for (const TaskStatus& task : info.task()) {
    if (task.task() == told.task()) {
      return task.pid() != told.pid() || (task.state() != "DRAINING" && task.state() != "UP");
    }
  }
  return true;
}

void PrintDrained(const Invocation& call, bool json, const TaskStatus& told, bool gone) {
  if (json) {
    JsonWriter writer;
    writer.BeginObject().Member("schema_version", 1).Member("task", told.task());
    writer.Member("pid", told.pid());
    call.Print(writer.Member("state", gone ? "LEFT" : told.state()).EndObject().text());
  } else {
    call.Print(absl::StrCat(told.task(), " (pid ", told.pid(), ") ",
                            gone ? "has left" : "finishes its push and leaves"));
  }
}

}  // namespace

int RunDrain(Invocation& call) {
  bool json = false;
  bool wait = false;
  double timeout_s = 60;
  ClusterFlag cluster(&call);
  call.flags().Add("json", &json, "one JSON object on the standard output");
  call.flags().Add("wait", &wait, "return once the worker has left");
  call.flags().Add("timeout", &timeout_s, "seconds that --wait waits; then exit 4");
  if (const std::optional<int> code = call.Parse(1, 1)) {
    return *code;
  }
  const std::string& name = call.positional()[0];
  const std::optional<uint32_t> worker = WorkerOf(name);
  if (!worker) {
    return call.Fail(absl::InvalidArgumentError(
        absl::StartsWith(name, "ps/")
            ? absl::StrCat(name,
                           " holds a part of every model and cannot leave; only workers can "
                           "be drained")
            : absl::StrCat("\"", name, "\" is no worker; say worker/N")));
  }
  absl::StatusOr<std::unique_ptr<JobClient>> client = cluster.Connect();
  if (!client.ok()) {
    return call.Fail(client.status());
  }
  const absl::StatusOr<TaskStatus> told = (*client)->Drain(*worker);
  if (!told.ok()) {
    return call.Fail(told.status());
  }
  const Environment& env = call.env();
  Patience patience(call);
  patience.Answered();
  const absl::Duration deadline = env.clock->Now() + absl::Seconds(timeout_s);
  bool gone = false;
  while (wait) {
    const absl::StatusOr<InfoReply> info = (*client)->Info();
    if (info.ok()) {
      patience.Answered();
      gone = HasGone(*info, *told);
    } else if (!patience.GoesOn(info.status())) {
      return call.Fail(info.status());
    }
    if (gone) {
      break;
    }
    if (env.clock->Now() >= deadline) {
      call.Note(absl::StrFormat("%s has not left after %g s", told->task(), timeout_s));
      return kExitTimeout;
    }
    if (const std::optional<int> signal = env.wait(kPollInterval)) {
      return 128 + *signal;
    }
  }
  PrintDrained(call, json, *told, gone);
  return kExitOk;
}

}  // namespace monsoon
