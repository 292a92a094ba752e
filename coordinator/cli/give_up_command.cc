#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/json/json_writer.h"
#include "coordinator/cli/job_commands.h"
#include "coordinator/cli/patience.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(200);

// Who says so, for reasons: "alice@desk".
std::string Who(const Environment& env) {
  std::string user = env.variable == nullptr ? "" : env.variable("USER").value_or("");
  return absl::StrCat(user.empty() ? "a user" : user, env.host.empty() ? "" : "@", env.host);
}

// What has become of the jobs; an error where the coordinator does not tell.
absl::StatusOr<std::vector<JobSummary>> LookAt(JobClient* client,
                                               const std::vector<std::string>& jobs) {
  std::vector<JobSummary> all;
  for (const std::string& job : jobs) {
    const absl::StatusOr<JobDescription> description = client->Describe(job);
    if (!description.ok()) {
      return description.status();
    }
    all.push_back(description->summary());
  }
  return all;
}

void PrintGivenUp(const Invocation& call, bool json, const std::string& task,
                  const std::vector<JobSummary>& jobs) {
  if (json) {
    JsonWriter writer;
    writer.BeginObject().Member("schema_version", 1).Member("task", task);
    writer.Key("jobs").BeginArray();
    for (const JobSummary& job : jobs) {
      writer.BeginObject().Member("job", job.job()).Member("state", JobState_Name(job.state()));
      writer.Member("reason", job.reason()).EndObject();
    }
    call.Print(writer.EndArray().EndObject().text());
    return;
  }
  if (jobs.empty()) {
    call.Print(absl::StrCat(task, ": its state folder is given up; no job has failed"));
  }
  for (const JobSummary& job : jobs) {
    call.Print(absl::StrCat(job.job(), " ", JobState_Name(job.state()),
                            job.reason().empty() ? "" : ": ", job.reason()));
  }
}

}  // namespace

int RunGiveUp(Invocation& call) {
  bool json = false;
  double timeout_s = 60;
  ClusterFlag cluster(&call);
  call.flags().Add("json", &json, "one JSON object on the standard output");
  call.flags().Add("timeout", &timeout_s, "seconds to wait for the parameter server; then exit 4");
  if (const std::optional<int> code = call.Parse(1, 1)) {
    return *code;
  }
  const std::string& task = call.positional()[0];
  const absl::StatusOr<std::unique_ptr<JobClient>> client = cluster.Connect();
  if (!client.ok()) {
    return call.Fail(client.status());
  }
  const Environment& env = call.env();
  absl::StatusOr<GiveUpReply> reply = (*client)->GiveUp(task, Who(env));
  if (!reply.ok()) {
    return call.Fail(reply.status());
  }
  const std::vector<std::string> jobs(reply->job().begin(), reply->job().end());
  const bool is_shard = task != "coordinator/0";
  if (is_shard && jobs.empty()) {
    return call.Fail(
        absl::FailedPreconditionError(absl::StrCat("no job waits for the state folder of ", task)));
  }
  Patience patience(call);
  patience.Answered();
  const absl::Duration deadline = env.clock->Now() + absl::Seconds(timeout_s);
  // The shard looks once more what is there. A coordinator that was started anew has forgotten
  // what it was told, so it is told until it is done.
  while (is_shard && (!reply.ok() || !reply->job().empty())) {
    if (env.clock->Now() >= deadline) {
      call.Note(absl::StrFormat("%s has not answered after %g s", task, timeout_s));
      return kExitTimeout;
    }
    if (const std::optional<int> signal = env.wait(kPollInterval)) {
      return 128 + *signal;
    }
    reply = (*client)->GiveUp(task, Who(env));
    if (reply.ok()) {
      patience.Answered();
    } else if (!patience.GoesOn(reply.status())) {
      return call.Fail(reply.status());
    }
  }
  const absl::StatusOr<std::vector<JobSummary>> summaries = LookAt(client->get(), jobs);
  if (!summaries.ok()) {
    return call.Fail(summaries.status());
  }
  PrintGivenUp(call, json, task, *summaries);
  return kExitOk;
}

}  // namespace monsoon
