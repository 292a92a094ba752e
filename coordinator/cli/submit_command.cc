#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/diagnostics.h"
#include "common/config/job.h"
#include "common/json/json_writer.h"
#include "common/model_file/model_file.h"
#include "coordinator/cli/job_commands.h"
#include "coordinator/cli/model_commands.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(100);

struct SubmitFlags {
  bool watch = false;
  bool json = false;
  std::string name;
  std::vector<std::string> set;
  std::string init;
  double timeout_s = 300;
};

void PrintSubmitted(const Invocation& call, bool json, const std::string& job, JobState state) {
  if (!json) {
    call.Print(absl::StrCat("submitted ", job, ", state ", JobState_Name(state)));
    return;
  }
  JsonWriter writer;
  writer.BeginObject().Member("schema_version", 1).Member("job", job);
  call.Print(writer.Member("state", JobState_Name(state)).EndObject().text());
}

// Waits until the shards hold the job's slices. The exit code when that will
// not happen.
std::optional<int> AwaitInitializing(const Invocation& call, JobClient* client,
                                     const std::string& job, double timeout_s) {
  const Environment& env = call.env();
  const absl::Duration deadline = env.clock->Now() + absl::Seconds(timeout_s);
  while (true) {
    const absl::StatusOr<JobDescription> description = client->Describe(job);
    if (!description.ok()) {
      return call.Fail(description.status());
    }
    const JobSummary& summary = description->summary();
    if (summary.state() == INITIALIZING) {
      return std::nullopt;
    }
    if (summary.state() != PENDING) {
      call.Note(absl::StrCat(job, " is ", JobState_Name(summary.state()),
                             " before its parameters were written",
                             summary.reason().empty() ? "" : ": ", summary.reason()));
      return kExitJobFailed;
    }
    if (env.clock->Now() >= deadline) {
      call.Note(absl::StrCat(job, " is still PENDING after ", timeout_s,
                             " s: it waits for an earlier job or for the shards"));
      return kExitTimeout;
    }
    if (const std::optional<int> signal = env.wait(kPollInterval)) {
      return 128 + *signal;
    }
  }
}

// Writes the parameters and starts the job. The exit code on failure; the job
// has been cancelled then.
std::optional<int> Initialize(const Invocation& call, JobClient* client, const std::string& job,
                              const ParameterLayout& layout, std::span<const float> parameters,
                              double timeout_s) {
  std::optional<int> code = AwaitInitializing(call, client, job, timeout_s);
  if (!code.has_value()) {
    absl::Status status;
    if (const absl::StatusOr<JobLocation> location = client->Locate(job); !location.ok()) {
      status = location.status();
    } else if (location->layout_hash() != layout.Hash()) {
      status = absl::InternalError(absl::StrCat(job,
                                                ": the coordinator lays the model out in "
                                                "another way; are the versions the same?"));
    } else {
      status = call.env().transfer->Write(*location, layout, parameters);
    }
    if (status.ok()) {
      status = client->Start(job).status();
    }
    if (!status.ok()) {
      code = call.Fail(status);
    }
  }
  if (code.has_value() && *code != kExitJobFailed) {
    if (const absl::Status status = client->Cancel(job).status(); !status.ok()) {
      call.Note(absl::StrCat(job, " could not be cancelled: ", status.message()));
    }
  }
  return code;
}

}  // namespace

int RunSubmit(Invocation& call) {
  SubmitFlags flags;
  ClusterFlag cluster(&call);
  call.flags().Add("watch", &flags.watch, "show the progress until the job ends");
  call.flags().Add("name", &flags.name, "the job's name, in place of the file's");
  call.flags().Add("set", &flags.set, "PATH=VALUE changes a field of the job; may be repeated");
  call.flags().Add("init", &flags.init, "start from the parameters of this .npz file");
  call.flags().Add("timeout", &flags.timeout_s, "seconds that --init waits for the shards");
  call.flags().Add("json", &flags.json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(1, 1)) {
    return *code;
  }
  if (!flags.name.empty()) {
    flags.set.push_back(absl::StrCat("name=\"", flags.name, "\""));
  }
  std::vector<Diagnostic> warnings;
  absl::StatusOr<Job> job =
      LoadJob(call.positional()[0], {.overrides = flags.set}, /*diagnostics=*/nullptr, &warnings);
  const absl::StatusOr<LoadedCluster> loaded = cluster.Load();
  for (const absl::Status& status : {job.status(), loaded.status()}) {
    if (!status.ok()) {
      call.Fail(status);
      return kExitUsage;
    }
  }
  if (const absl::Status status = ValidateJobOnCluster(*job, loaded->cluster); !status.ok()) {
    return call.Fail(status);
  }
  for (const Diagnostic& warning : warnings) {
    *call.env().err << FormatDiagnostic(warning, "warning") << "\n";
  }
  const absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(job->model());
  if (!layout.ok()) {
    return call.Fail(layout.status());
  }
  // Before the job exists: a file that does not fit must not leave one behind.
  std::vector<float> parameters;
  if (!flags.init.empty()) {
    absl::StatusOr<std::vector<float>> read = ReadModelFile(*layout, flags.init);
    if (!read.ok()) {
      call.Fail(read.status());
      return kExitUsage;
    }
    parameters = *std::move(read);
  }
  const absl::StatusOr<std::unique_ptr<JobClient>> client = cluster.Connect();
  if (!client.ok()) {
    return call.Fail(client.status());
  }
  SubmitRequest request;
  *request.mutable_job() = *std::move(job);
  request.set_init(!flags.init.empty());
  const absl::StatusOr<SubmitReply> reply = (*client)->Submit(request);
  if (!reply.ok()) {
    return call.Fail(reply.status());
  }
  PrintSubmitted(call, flags.json, reply->job(), reply->state());
  if (request.init()) {
    if (const std::optional<int> code =
            Initialize(call, client->get(), reply->job(), *layout, parameters, flags.timeout_s)) {
      return *code;
    }
  }
  return flags.watch ? WatchJob(call, client->get(), reply->job(),
                                flags.json ? WatchOutput::kMessages : WatchOutput::kData)
                     : kExitOk;
}

}  // namespace monsoon
