#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/unsent.h"
#include "common/checkpoint/stored_job.h"
#include "common/config/diagnostics.h"
#include "common/config/job.h"
#include "common/config/location_map.h"
#include "common/config/reporter.h"
#include "common/json/json_writer.h"
#include "common/model_file/model_file.h"
#include "coordinator/cli/checkpoint_lookup.h"
#include "coordinator/cli/checkpoint_text.h"
#include "coordinator/cli/job_commands.h"
#include "coordinator/cli/model_commands.h"
#include "coordinator/cli/patience.h"
#include "coordinator/cli/resume_source.h"
#include "proto/shard_checkpoint.pb.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(100);

struct SubmitFlags {
  bool watch = false;
  bool strict = false;
  bool json = false;
  std::string name;
  std::vector<std::string> set;
  std::string init;
  std::string resume;
  double timeout_s = 300;
  double patience_s = Patience::kDefaultSeconds;
};

void AddFlags(Invocation* call, SubmitFlags* flags) {
  call->flags().Add("watch", &flags->watch, "show the progress until the job ends");
  AddStrictFlag(call, &flags->strict);
  call->flags().Add("name", &flags->name, "the job's name, in place of the file's");
  call->flags().Add("set", &flags->set, "PATH=VALUE changes a field of the job; may be repeated");
  call->flags().Add("init", &flags->init,
                    "start from the parameters of this .npz or .safetensors file");
  call->flags().Add(
      "resume", &flags->resume,
      "go on from the newest checkpoint of this job, or in this folder; without a job "
      "file: as the job that it was. Where the shards hold what this job has ended with, nothing "
      "is copied");
  call->flags().Add("timeout", &flags->timeout_s,
                    "seconds that --init and --resume wait for the shards");
  AddPatienceFlag(call, &flags->patience_s);
  call->flags().Add("json", &flags->json, "one JSON object on the standard output");
}

// What is submitted, and what it begins with.
struct Submission {
  Job job;
  LocationMap places;  // of its fields
  ParameterLayout layout;
  std::optional<InitialValues> values;  // written by this client
  std::optional<ResumePoint> resume;    // without `values`: the shards hold it
};

void PrintSubmitted(const Invocation& call, bool json, const Submission& submission,
                    const SubmitReply& reply) {
  const std::string state = JobState_Name(reply.state());
  const ResumePoint resume = submission.resume.value_or(ResumePoint());
  if (!json) {
    call.Print(absl::StrCat("submitted ", reply.job(), ", state ", state));
    if (submission.resume.has_value()) {
      call.Print(absl::StrCat("resuming ", CheckpointName(resume), " as ", reply.job(),
                              submission.values ? "" : ", from what the shards hold"));
    }
    return;
  }
  JsonWriter writer;
  writer.BeginObject().Member("schema_version", 1).Member("job", reply.job());
  writer.Member("state", state);
  if (submission.resume.has_value()) {
    writer.Member("resumed_job", resume.source_job());
    writer.Member("resumed_generation", resume.generation());
    if (!submission.values) {
      writer.Member("from_shards", true);
    }
  }
  call.Print(writer.EndObject().text());
}

// What workers have found in the job's data files, at the places of the fields.
std::vector<Diagnostic> Placed(const google::protobuf::RepeatedPtrField<DataFinding>& findings,
                               const Invocation& call, const Submission& submission) {
  const std::string file = call.positional().empty() ? "" : call.positional()[0];
  std::vector<Diagnostic> placed;
  Reporter reporter(file, &submission.places, &placed);
  for (const DataFinding& finding : findings) {
    reporter.Error(finding.field(), finding.message(), finding.suggestion());
  }
  return placed;
}

// An error where the data are not right: there is no job then.
absl::Status TellOfData(const Invocation& call, const Submission& submission,
                        const SubmitReply& reply) {
  for (const Diagnostic& warning : Placed(reply.data_warning(), call, submission)) {
    *call.env().err << FormatDiagnostic(warning, "warning") << "\n";
  }
  if (!reply.data_seen().empty()) {
    call.Note(absl::StrCat("the data as seen by ", reply.data_seen()));
  } else if (reply.data_awaited()) {
    call.Note(
        "no worker has looked at the data files yet: the job waits for one, and fails if they are "
        "not right");
  }
  return DiagnosticsToStatus(Placed(reply.data_error(), call, submission));
}

// Waits until the shards hold the job's slices. The exit code when that will
// not happen.
std::optional<int> AwaitInitializing(const Invocation& call, JobClient* client,
                                     const std::string& job, double timeout_s) {
  const Environment& env = call.env();
  const absl::Duration deadline = env.clock->Now() + absl::Seconds(timeout_s);
  Patience patience(call);
  patience.Answered();
  JobSummary summary;
  summary.set_state(PENDING);
  while (true) {
    const absl::StatusOr<JobDescription> description = client->Describe(job);
    if (description.ok()) {
      patience.Answered();
      summary = description->summary();
    } else if (!patience.GoesOn(description.status())) {
      return call.Fail(description.status());
    }
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

SubmitRequest RequestOf(const Submission& submission, const std::string& client_id) {
  SubmitRequest request;
  *request.mutable_job() = submission.job;
  request.set_init(submission.values.has_value() || submission.resume.has_value());
  if (submission.resume.has_value()) {
    *request.mutable_resume() = *submission.resume;
    request.set_resume_held(!submission.values.has_value());
  }
  request.set_client_id(client_id);
  return request;
}

// Submits, once: a call whose answer got lost is repeated under the same client id.
absl::StatusOr<SubmitReply> Submit(const Invocation& call, JobClient* client,
                                   const Submission& submission, Patience* patience) {
  const SubmitRequest request = RequestOf(submission, call.env().draw_id());
  absl::StatusOr<SubmitReply> reply = client->Submit(request);
  if (!IsUnsent(reply.status())) {
    patience->Answered();  // Somebody may have heard it.
  }
  while (!reply.ok() && patience->GoesOn(reply.status())) {
    if (call.env().wait(Patience::kPause).has_value()) {
      return absl::CancelledError(
          absl::StrCat("interrupted before the coordinator confirmed the job: `",
                       call.CommandLine("jobs"), "` tells"));
    }
    reply = client->Submit(request);
  }
  return reply;
}

// Writes the parameters and starts the job. The exit code on failure; the job
// has been cancelled then.
std::optional<int> Initialize(const Invocation& call, JobClient* client, const std::string& job,
                              const Submission& submission, double timeout_s) {
  std::optional<int> code = AwaitInitializing(call, client, job, timeout_s);
  if (!code.has_value()) {
    absl::Status status;
    if (const absl::StatusOr<JobLocation> location = client->Locate(job); !location.ok()) {
      status = location.status();
    } else if (location->layout_hash() != submission.layout.Hash()) {
      status = absl::InternalError(absl::StrCat(job,
                                                ": the coordinator lays the model out in "
                                                "another way; are the versions the same?"));
    } else {
      status = call.env().transfer->Write(*location, submission.layout, *submission.values);
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

// The checkpoint that --resume names; says on the standard error what was passed over.
absl::StatusOr<LoadedCheckpoint> LoadResumed(const Invocation& call, const ClusterFlag& cluster,
                                             const std::string& resume) {
  ASSIGN_OR_RETURN(const CheckpointPlace place,
                   CheckpointLookup(call.env(), &cluster).Find(resume));
  std::vector<std::string> skipped;
  ASSIGN_OR_RETURN(LoadedCheckpoint checkpoint, LoadFrom(call.env().storage, place, &skipped));
  for (const std::string& line : skipped) {
    call.Note(absl::StrCat("passed over: ", line));
  }
  return checkpoint;
}

void NoteCopy(const Invocation& call, const std::string& job, absl::string_view why) {
  call.Note(absl::StrCat("the checkpoint of ", job, " is copied: ", why));
}

// What the shards hold of the job that --resume names. Where they, or the coordinator, do not, a
// line on the standard error says that its checkpoint is copied, and why.
std::optional<ResumePoint> FindHeld(const Invocation& call, const ClusterFlag& cluster,
                                    const std::string& resume) {
  const auto named = CheckpointLookup(call.env(), &cluster).JobOf(resume);
  if (!named) {
    return std::nullopt;
  }
  const absl::StatusOr<std::unique_ptr<JobClient>> client = cluster.Connect();
  if (!client.ok()) {
    return std::nullopt;  // Whoever submits says it.
  }
  const absl::StatusOr<JobLocation> location = (*client)->Locate(named->job);
  std::string why(location.status().message());
  if (location.ok() && named->term != 0 && named->term != location->job_term()) {
    why = absl::StrCat("the coordinator's ", named->job, " is another one");
  } else if (location.ok() && location->has_held()) {
    return location->held();
  } else if (location.ok()) {
    why = location->not_held();
  }
  if (!why.empty() && !NobodyListens(location.status())) {
    NoteCopy(call, resume, why);
  }
  return std::nullopt;
}

// As a checkpoint has it that was made then.
ShardCheckpoint StoredContentOf(const ResumePoint& held) {
  ShardCheckpoint content;
  content.mutable_create()->set_job(held.source_job());
  content.set_generation(held.generation());
  *content.mutable_context() = held.context();
  return content;
}

// What a job begins with that goes on from what the shards hold, or else from `checkpoint`.
absl::Status ResumeFrom(const std::optional<ResumePoint>& held,
                        std::optional<LoadedCheckpoint> checkpoint, Submission* submission,
                        std::vector<std::string>* notes) {
  if (held) {
    submission->resume = *held;
    return CheckHeldSource(*held, submission->job, submission->layout, notes);
  }
  ASSIGN_OR_RETURN(ResumeSource source, MakeResumeSource(*std::move(checkpoint), submission->job,
                                                         submission->layout, notes));
  submission->values = std::move(source.values);
  submission->resume = std::move(source.point);
  return absl::OkStatus();
}

// Reads the job and what it begins with, before anything of it exists: a file that does
// not fit must not leave a job behind. `held`: what --resume names is on the shards.
absl::StatusOr<Submission> LoadSubmission(const Invocation& call, const ClusterFlag& cluster,
                                          const SubmitFlags& flags,
                                          const std::optional<ResumePoint>& held) {
  std::optional<LoadedCheckpoint> checkpoint;
  std::optional<ShardCheckpoint> content;  // of what is resumed
  if (held) {
    content = StoredContentOf(*held);
  } else if (!flags.resume.empty()) {
    ASSIGN_OR_RETURN(checkpoint, LoadResumed(call, cluster, flags.resume));
    content = checkpoint->content;
  }
  Submission submission;
  std::vector<Diagnostic> warnings;
  // Workers read the data, and so workers look at them.
  const LoadOptions options{
      .overrides = flags.set, .files_are_elsewhere = true, .places = &submission.places};
  absl::StatusOr<Job> job = call.positional().empty() ? LoadStoredJob(*content, options, &warnings)
                                                      : LoadJob(call.positional()[0], options,
                                                                /*diagnostics=*/nullptr, &warnings);
  const absl::StatusOr<LoadedCluster> loaded = cluster.Load();
  if (!job.ok() && !loaded.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(job.status().message(), "\n", loaded.status().message()));
  }
  RETURN_IF_ERROR(job.status());
  RETURN_IF_ERROR(loaded.status());
  submission.job = *std::move(job);
  if (content) {
    // The model goes on, and with it the numbers of its classes. Who looks at the data finds out
    // whether they still have that order.
    RETURN_IF_ERROR(KeepClassOrder(*content, &submission.job));
  }
  RETURN_IF_ERROR(ValidateJobOnCluster(submission.job, loaded->cluster));
  for (const Diagnostic& warning : warnings) {
    *call.env().err << FormatDiagnostic(warning, "warning") << "\n";
  }
  if (const std::string advice = AdviseOnCluster(submission.job, loaded->cluster);
      !advice.empty()) {
    call.Note(absl::StrCat("warning: ", advice));
  }
  ASSIGN_OR_RETURN(submission.layout, ParameterLayout::Create(submission.job.model()));
  std::vector<std::string> notes;
  if (content) {
    RETURN_IF_ERROR(ResumeFrom(held, std::move(checkpoint), &submission, &notes));
  } else if (!flags.init.empty()) {
    ASSIGN_OR_RETURN(std::vector<float> parameters, ReadModelFile(submission.layout, flags.init));
    RETURN_IF_ERROR(CheckModelFinite(submission.layout, parameters, flags.init));
    submission.values = InitialValues{.parameters = std::move(parameters)};
  }
  for (const std::string& note : notes) {
    call.Note(note);
  }
  return submission;
}

// The exit code of flags that do not fit together.
std::optional<int> CheckFlags(const Invocation& call, SubmitFlags* flags) {
  if (call.positional().empty() && flags->resume.empty()) {
    return call.Usage(
        absl::StrCat("an argument is missing: ", call.name(), " JOB.textproto [flags]"));
  }
  if (flags->strict && !flags->watch) {
    return call.Usage("--strict is of the job's end: it needs --watch");
  }
  if (!flags->init.empty() && !flags->resume.empty()) {
    return call.Usage("--init and --resume exclude each other: a job begins with one of them");
  }
  if (!flags->name.empty()) {
    flags->set.push_back(absl::StrCat("name=\"", flags->name, "\""));
  }
  return std::nullopt;
}

int FailToLoad(const Invocation& call, const SubmitFlags& flags, const absl::Status& status) {
  const int code = call.Fail(status);
  return absl::IsDataLoss(status) && !flags.resume.empty() ? code : kExitUsage;
}

}  // namespace

int RunSubmit(Invocation& call) {
  SubmitFlags flags;
  const ClusterFlag cluster(&call);
  AddFlags(&call, &flags);
  if (const std::optional<int> code = call.Parse(0, 1)) {
    return *code;
  }
  if (const std::optional<int> code = CheckFlags(call, &flags)) {
    return *code;
  }
  const std::optional<ResumePoint> held = FindHeld(call, cluster, flags.resume);
  absl::StatusOr<Submission> submission = LoadSubmission(call, cluster, flags, held);
  if (!submission.ok()) {
    return FailToLoad(call, flags, submission.status());
  }
  const absl::StatusOr<std::unique_ptr<JobClient>> client = cluster.Connect();
  if (!client.ok()) {
    return call.Fail(client.status());
  }
  Patience patience(call, flags.patience_s, [&cluster] { return cluster.UpRunsCoordinator(); });
  absl::StatusOr<SubmitReply> reply = Submit(call, client->get(), *submission, &patience);
  if (held && absl::IsFailedPrecondition(reply.status())) {
    NoteCopy(call, flags.resume, reply.status().message());
    submission = LoadSubmission(call, cluster, flags, /*held=*/std::nullopt);
    if (!submission.ok()) {
      return FailToLoad(call, flags, submission.status());
    }
    reply = Submit(call, client->get(), *submission, &patience);
  }
  if (!reply.ok()) {
    return call.Fail(reply.status());
  }
  if (const absl::Status data = TellOfData(call, *submission, *reply); !data.ok()) {
    return call.Fail(data);
  }
  PrintSubmitted(call, flags.json, *submission, *reply);
  if (submission->values.has_value()) {
    if (const std::optional<int> code =
            Initialize(call, client->get(), reply->job(), *submission, flags.timeout_s)) {
      return *code;
    }
  }
  patience.Answered();  // with the job
  if (!flags.watch) {
    return kExitOk;
  }
  const WatchOptions options{flags.json ? WatchOutput::kMessages : WatchOutput::kData,
                             flags.strict};
  return WatchJob(call, client->get(), reply->job(), options, &patience);
}

}  // namespace monsoon
