#include "coordinator/cli/job_commands.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/json/json_writer.h"
#include "coordinator/cli/describe_json.h"
#include "coordinator/cli/describe_text.h"
#include "coordinator/cli/patience.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(200);

// JOB, --cluster, --json: what all these verbs take.
class JobCall {
 public:
  explicit JobCall(Invocation* call) : call_(*call), cluster_(call) {
    call->flags().Add("json", &json_, "one JSON object on the standard output");
  }

  // The exit code when the command is over already.
  std::optional<int> Begin(size_t positional) {
    if (const std::optional<int> code = call_.Parse(positional, positional)) {
      return code;
    }
    absl::StatusOr<std::unique_ptr<JobClient>> client = cluster_.Connect();
    if (!client.ok()) {
      return call_.Fail(client.status());
    }
    client_ = *std::move(client);
    return std::nullopt;
  }

  JobClient& client() { return *client_; }
  const ClusterFlag& cluster() const { return cluster_; }
  const std::string& job() const { return call_.positional()[0]; }
  bool json() const { return json_; }

  int PrintSummary(const absl::StatusOr<JobSummary>& summary, absl::string_view done) {
    if (!summary.ok()) {
      return call_.Fail(summary.status());
    }
    call_.Print(json_ ? SummaryJson(*summary)
                      : absl::StrCat(summary->job(), " ", done, ", state ",
                                     JobState_Name(summary->state())));
    return kExitOk;
  }

 private:
  Invocation& call_;
  ClusterFlag cluster_;
  bool json_ = false;
  std::unique_ptr<JobClient> client_;
};

void PrintCheckpoint(const Invocation& call, bool json, const JobDescription& job) {
  const JobDescription::Durability& durability = job.durability();
  if (!json) {
    call.Print(absl::StrCat(job.summary().job(), ": generation ", durability.generation(),
                            " is on the disk (", BytesText(durability.disk_bytes()), ")"));
    return;
  }
  JsonWriter writer;
  writer.BeginObject().Member("schema_version", 1).Member("job", job.summary().job());
  writer.Member("generation", durability.generation());
  call.Print(writer.Member("disk_bytes", durability.disk_bytes()).EndObject().text());
}

// Of one call of `set`.
constexpr size_t kMostSettings = 64;

std::string ChangesJson(const SetReply& reply) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", 1).Member("job", reply.job());
  json.Member("settings_revision", reply.revision()).Key("changes").BeginArray();
  for (const SettingChange& change : reply.change()) {
    json.BeginObject().Member("path", change.path()).Member("from", change.from());
    json.Member("to", change.to()).Member("taken_by", change.taken_by()).EndObject();
  }
  return json.EndArray().EndObject().text();
}

}  // namespace

int RunJobs(Invocation& call) {
  JobCall jobs(&call);
  if (const std::optional<int> code = jobs.Begin(0)) {
    return *code;
  }
  const absl::StatusOr<ListReply> list = jobs.client().List();
  if (!list.ok()) {
    return call.Fail(list.status());
  }
  if (jobs.json()) {
    call.Print(JobsJson(*list));
  } else {
    if (!list->waits_for().empty()) {
      call.Note(absl::StrCat("the coordinator waits for ", list->waits_for()));
    }
    if (!list->open_at().empty()) {
      call.Note(absl::StrCat("the cluster runs with --insecure: everybody who reaches ",
                             list->open_at(), " may do everything"));
    }
    *call.env().out << JobsText(
        *list, [&call](absl::string_view command) { return call.CommandLine(command); });
  }
  return kExitOk;
}

int RunDescribe(Invocation& call) {
  JobCall describe(&call);
  if (const std::optional<int> code = describe.Begin(1)) {
    return *code;
  }
  const absl::StatusOr<JobDescription> job = describe.client().Describe(describe.job());
  if (!job.ok()) {
    return call.Fail(job.status());
  }
  if (describe.json()) {
    call.Print(DescribeJson(*job));
  } else {
    *call.env().out << DescribeText(*job);
  }
  return kExitOk;
}

int RunWatch(Invocation& call) {
  WatchOptions options;
  double patience_s = Patience::kDefaultSeconds;
  AddPatienceFlag(&call, &patience_s);
  AddStrictFlag(&call, &options.strict);
  JobCall watch(&call);
  if (const std::optional<int> code = watch.Begin(1)) {
    return *code;
  }
  Patience patience(call, patience_s, [&watch] { return watch.cluster().UpRunsCoordinator(); });
  options.output = watch.json() ? WatchOutput::kJson : WatchOutput::kData;
  return WatchJob(call, &watch.client(), watch.job(), options, &patience);
}

int RunCancel(Invocation& call) {
  bool wait = false;
  double timeout_s = 60;
  call.flags().Add("wait", &wait, "return once the job has ended");
  call.flags().Add("timeout", &timeout_s, "seconds that --wait waits; then exit 4");
  JobCall cancel(&call);
  if (const std::optional<int> code = cancel.Begin(1)) {
    return *code;
  }
  absl::StatusOr<JobSummary> summary = cancel.client().Cancel(cancel.job());
  const Environment& env = call.env();
  Patience patience(call);
  patience.Answered();
  const absl::Duration deadline = env.clock->Now() + absl::Seconds(timeout_s);
  while (wait && summary.ok() && !HasEnded(summary->state())) {
    if (env.clock->Now() >= deadline) {
      call.Note(absl::StrFormat("%s is still %s after %g s", summary->job(),
                                JobState_Name(summary->state()), timeout_s));
      return kExitTimeout;
    }
    if (const std::optional<int> signal = env.wait(kPollInterval)) {
      return 128 + *signal;
    }
    const absl::StatusOr<JobDescription> job = cancel.client().Describe(summary->job());
    if (job.ok()) {
      patience.Answered();
      summary = job->summary();
    } else if (!patience.GoesOn(job.status())) {
      summary = job.status();
    }
  }
  return cancel.PrintSummary(summary, wait ? "ended" : "is asked to end");
}

int RunCheckpoint(Invocation& call) {
  double timeout_s = 60;
  call.flags().Add("timeout", &timeout_s, "seconds to wait until it is on the disk; then exit 4");
  JobCall checkpoint(&call);
  if (const std::optional<int> code = checkpoint.Begin(1)) {
    return *code;
  }
  const absl::StatusOr<CheckpointOrder> order = checkpoint.client().Checkpoint(checkpoint.job());
  if (!order.ok()) {
    return call.Fail(order.status());
  }
  const Environment& env = call.env();
  const absl::Duration deadline = env.clock->Now() + absl::Seconds(timeout_s);
  Patience patience(call);
  patience.Answered();
  JobDescription job;
  while (true) {
    const absl::StatusOr<JobDescription> reply = checkpoint.client().Describe(order->job());
    if (reply.ok()) {
      patience.Answered();
      job = *reply;
    } else if (!patience.GoesOn(reply.status())) {
      return call.Fail(reply.status());
    }
    const JobDescription::Durability& durability = job.durability();
    if (durability.generation() >= order->generation()) {
      PrintCheckpoint(call, checkpoint.json(), job);
      return kExitOk;
    }
    if (HasEnded(job.summary().state()) && durability.ordered() == 0) {
      call.Note(absl::StrCat(order->job(), " is ", JobState_Name(job.summary().state()),
                             " before generation ", order->generation(),
                             " was written: ", job.summary().reason()));
      return kExitJobFailed;
    }
    if (env.clock->Now() >= deadline) {
      call.Note(absl::StrFormat("%s: generation %d is not on the disk after %g s%s%s", order->job(),
                                order->generation(), timeout_s,
                                durability.error().empty() ? "" : ": ", durability.error()));
      return kExitTimeout;
    }
    if (const std::optional<int> signal = env.wait(kPollInterval)) {
      return 128 + *signal;
    }
  }
}

int RunDelete(Invocation& call) {
  JobCall remove(&call);
  if (const std::optional<int> code = remove.Begin(1)) {
    return *code;
  }
  const absl::StatusOr<JobSummary> deleted = remove.client().Delete(remove.job());
  if (deleted.ok() && deleted->state() == JOB_STATE_UNSPECIFIED && !remove.json()) {
    call.Print(absl::StrCat(deleted->job(), " deleted: ", deleted->reason()));
    return kExitOk;
  }
  return remove.PrintSummary(deleted, "deleted");
}

int RunSet(Invocation& call) {
  bool json = false;
  ClusterFlag cluster(&call);
  call.flags().Add("json", &json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(2, 1 + kMostSettings)) {
    return *code;
  }
  const std::string& job = call.positional()[0];
  const std::vector<std::string> settings(call.positional().begin() + 1, call.positional().end());
  for (const std::string& setting : settings) {
    if (!absl::StrContains(setting, '=')) {
      return call.Usage(absl::StrCat("\"", setting, "\" sets nothing; say PATH=VALUE"));
    }
  }
  absl::StatusOr<std::unique_ptr<JobClient>> client = cluster.Connect();
  if (!client.ok()) {
    return call.Fail(client.status());
  }
  const absl::StatusOr<SetReply> reply = (*client)->Set(job, settings);
  if (!reply.ok()) {
    return call.Fail(reply.status());
  }
  if (json) {
    call.Print(ChangesJson(*reply));
    return kExitOk;
  }
  for (const SettingChange& change : reply->change()) {
    call.Print(absl::StrCat(change.path(), ": ", change.from(), " -> ", change.to(), " (",
                            change.taken_by(), ")"));
  }
  if (reply->change().empty()) {
    call.Print(absl::StrCat(reply->job(), " has these settings already"));
  }
  return kExitOk;
}

}  // namespace monsoon
