#include "worker/replica/replica_runner.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/finite.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/config/job.h"
#include "common/data/access/data_access.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "common/data/file_pattern.h"
#include "common/memory/aligned_floats.h"
#include "worker/backend/backend.h"
#include "worker/data/fingerprint.h"
#include "worker/data/job_data.h"
#include "worker/downpour/local_updater.h"
#include "worker/group/breaking_network.h"
#include "worker/group/evaluator.h"
#include "worker/replica/contribution_work.h"
#include "worker/replica/session_wires.h"
#include "worker/replica/synchronous_work.h"
#include "worker/replica/training_work.h"
#include "worker/session/session_status.h"

namespace monsoon {
namespace {

// Train and test of one job.
constexpr size_t kDatasetsKept = 2;

ComputePrecision PrecisionOf(const Job& job) {
  switch (job.compute_precision()) {
    case Job::TF32:
      return ComputePrecision::kTf32;
    case Job::BFLOAT16:
      return ComputePrecision::kBfloat16;
    case Job::FLOAT16:
      return ComputePrecision::kFloat16;
    default:
      return ComputePrecision::kFloat32;
  }
}

SessionEnd Failed(ReportFailureRequest::Kind kind, const absl::Status& status) {
  return {SessionEnd::Kind::kFailed, kind, std::string(status.message())};
}

// What a session comes to that cannot even begin.
SessionEnd NotBegun(const absl::Status& status) {
  if (IsDeviceError(status)) {
    return {SessionEnd::Kind::kDeviceLost, ReportFailureRequest::REPLICA,
            std::string(status.message())};
  }
  if (IsUnfitDeviceError(status)) {
    return Failed(ReportFailureRequest::UNFIT_DEVICE, status);
  }
  return Failed(absl::IsDataLoss(status)            ? ReportFailureRequest::DATA
                : absl::IsResourceExhausted(status) ? ReportFailureRequest::REPLICA
                                                    : ReportFailureRequest::JOB,
                status);
}

// No network could be made: because of the model or job, of this machine's devices
// whatever is tried, or of their state just now.
absl::Status NoNetwork(const absl::Status& status) {
  if (absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)) {
    return status;
  }
  const std::string message = absl::StrCat("no device for the model: ", status.message());
  if (absl::IsFailedPrecondition(status)) {
    return UnfitDeviceError(message);
  }
  return absl::IsInternal(status) ? DeviceError(message) : absl::ResourceExhaustedError(message);
}

// Of folders within folders, which links could make endless.
constexpr int kMostDepth = 8;

struct stat Nothing() {
  struct stat nothing {};
  return nothing;
}

// Of a folder: with all that lies in it, whose order is chance. Whoever opens it tells the errors.
uint64_t StampOf(const std::string& path, const DataRoots& roots, int depth = 0) {
  const struct stat info = roots.Stat(path).value_or(Nothing());
  Fingerprinter print;
  print.Add(path);
  for (const auto number :
       {static_cast<int64_t>(info.st_dev), static_cast<int64_t>(info.st_ino),
        static_cast<int64_t>(info.st_size), static_cast<int64_t>(info.st_mtim.tv_sec),
        static_cast<int64_t>(info.st_mtim.tv_nsec)}) {
    print.Add(static_cast<uint64_t>(number));
  }
  uint64_t stamp = print.value();
  if (S_ISDIR(info.st_mode) && depth < kMostDepth) {
    const auto names = roots.Names(path);
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      stamp += StampOf(absl::StrCat(path, "/", name), roots, depth + 1);
    }
  }
  return stamp;
}

// Differs for another description, and for a file that was replaced or written.
std::string FilesKey(Dataset dataset, const DataRoots& roots) {
  std::string key = absl::StrCat(":", dataset.SerializeAsString());
  VisitPaths(&dataset, [&](std::string* path) {
    const absl::StatusOr<std::vector<std::string>> files = FilesOf(*path, roots);
    for (const std::string& file : files.ok() ? *files : std::vector<std::string>()) {
      absl::StrAppend(&key, ":", StampOf(file, roots));
    }
  });
  return key;
}

std::string DatasetKey(const Dataset& dataset, const DataContext& context) {
  return absl::StrCat(absl::StrJoin(context.input_shape, ","), ":", context.id_limit, ":",
                      context.targets_are_shares, FilesKey(dataset, context.access.roots),
                      context.training ? FilesKey(*context.training, context.access.roots) : "");
}

}  // namespace

ReplicaRunner::ReplicaRunner(const Options& options, ReplicaClient* coordinator)
    : options_(options), coordinator_(coordinator) {}

absl::StatusOr<std::shared_ptr<const DataSource>> ReplicaRunner::Open(const Dataset& dataset,
                                                                      const DataContext& context) {
  const std::string key = DatasetKey(dataset, context);
  std::shared_ptr<const DataSource>& source = opened_[key];
  if (source == nullptr) {
    absl::StatusOr<std::shared_ptr<const DataSource>> opened = OpenerFor()(dataset, context);
    if (!opened.ok()) {
      opened_.erase(key);
      const std::string why = absl::StrCat("worker/", worker_, ": ", opened.status().message());
      // Want of memory is this machine's, not the data's.
      return absl::IsResourceExhausted(opened.status()) ? absl::ResourceExhaustedError(why)
                                                        : absl::DataLossError(why);
    }
    source = *std::move(opened);
  }
  return source;
}

absl::Status ReplicaRunner::CheckData(const Dataset& dataset, uint64_t expected,
                                      const DataSource& found) const {
  if (expected == 0 || expected == found.Fingerprint()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "worker/%d reads other data than the job's first replica: fingerprint %016x, not %016x (%s)",
      worker_, found.Fingerprint(), expected, dataset.ShortDebugString()));
}

absl::Status ReplicaRunner::Prepare(const Assignment& assignment, StatsCollector* stats,
                                    SessionControl* control, SessionResources* resources) {
  ASSIGN_OR_RETURN(resources->joined, MakeJoinedJob(assignment));
  worker_ = resources->joined.session.worker();
  const Job& job = resources->joined.job;
  if (opened_.size() > kDatasetsKept) {
    opened_.clear();
  }
  ASSIGN_OR_RETURN(resources->data, OpenJobData(
                                        job,
                                        [&](const Dataset& dataset, const DataContext& context) {
                                          return Open(dataset, context);
                                        },
                                        DataAccess::ForJobs(options_.data_roots)));
  RETURN_IF_ERROR(MakeGroup(stats, resources));
  ParameterClientOptions client = SessionClientOptions(resources->joined, options_.rpc_deadline,
                                                       options_.replay_window_bytes, stats);
  client.fault = options_.fault;
  client.tls = options_.tls;
  if (options_.make_transport) {
    client.make_transport = [this, resources] {
      return options_.make_transport(resources->joined);
    };
  }
  ASSIGN_OR_RETURN(resources->client, ParameterClient::Create(std::move(client)));
  if (job.has_sandblaster()) {
    AddSandblaster(stats, control, resources);
  }
  if (TrainsInGroups(job)) {
    return AddSynchronous(stats, control, resources);
  }
  return job.has_downpour() ? AddDownpour(stats, control, resources) : absl::OkStatus();
}

absl::Status ReplicaRunner::MakeGroup(StatsCollector* stats, SessionResources* resources) {
  const Job& job = resources->joined.job;
  ReplicaGroup::Options options;
  options.worker = worker_;
  options.stats = stats;
  const auto make = [&](uint32_t replica) -> absl::StatusOr<std::unique_ptr<Network>> {
    if (options_.make_network) {
      return options_.make_network(resources->joined);
    }
    NetworkOptions network;
    network.threads = static_cast<int>(options_.threads);
    network.device_index = options_.DeviceOf(replica);
    network.memory_limit_bytes = options_.device_memory_limit_bytes;
    network.precision = PrecisionOf(job);
    ASSIGN_OR_RETURN(
        std::unique_ptr<Network> made,
        CreateNetwork(options_.backend, job.model(), resources->joined.layout, network));
    if (options_.fault.break_device_after > 0 && replica == 0) {
      made = MakeBreakingNetwork(std::move(made), options_.fault.break_device_after);
    }
    return made;
  };
  absl::StatusOr<std::unique_ptr<ReplicaGroup>> group =
      ReplicaGroup::Create(options, options_.replicas, make);
  if (!group.ok()) {
    return NoNetwork(group.status());
  }
  resources->group = *std::move(group);
  return absl::OkStatus();
}

absl::Status ReplicaRunner::AddDownpour(StatsCollector* stats, SessionControl* control,
                                        SessionResources* resources) {
  const JoinedJob& joined = resources->joined;
  const Job& job = joined.job;
  ASSIGN_OR_RETURN(
      std::unique_ptr<LocalUpdater> local,
      LocalUpdater::Create(job.downpour(), joined.client_options.map,
                           LocalUpdater::TensorsOf(job.downpour(), job.model(), joined.layout),
                           joined.client_options.fragments));
  resources->downpour = std::make_unique<DownpourRunner>(
      DownpourRunnerOptions::From(job, worker_, joined.client_options.fragments), &joined.layout,
      resources->client.get(), resources->group.get(), std::move(local), stats, control,
      options_.clock, DifferenceWeigher(job, options_.replicas));
  resources->bound =
      PushBound::Of(job, joined.session, coordinator_, stats, control, options_.clock);
  resources->downpour->BoundBy(resources->bound.get());
  resources->reader =
      std::make_unique<PrefetchingReader>(resources->data.train.get(), job, options_.replicas);
  return absl::OkStatus();
}

absl::Status ReplicaRunner::AddSynchronous(StatsCollector* stats, SessionControl* control,
                                           SessionResources* resources) {
  const JoinedJob& joined = resources->joined;
  if (options_.peers.mailbox == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker/", worker_, " serves no frames, which a synchronous job needs"));
  }
  ASSIGN_OR_RETURN(resources->state, MemberState::Create(joined.job, joined.layout));
  resources->group->LockPages(resources->state->parameters().get());
  resources->order_reader = std::make_unique<OrderReader>(
      resources->data.train.get(), joined.job.seed(), joined.job.batch_size());
  resources->synchronous = std::make_unique<SynchronousRunner>(
      SynchronousRunner::Parts{.worker = worker_,
                               .job = &joined.job,
                               .layout = &joined.layout,
                               .client = resources->client.get(),
                               .group = resources->group.get(),
                               .reader = resources->order_reader.get(),
                               .state = resources->state.get(),
                               .stats = stats,
                               .control = control,
                               .peers = options_.peers,
                               .clock = options_.clock});
  return absl::OkStatus();
}

void ReplicaRunner::AddSandblaster(StatsCollector* stats, SessionControl* control,
                                   SessionResources* resources) {
  const Job& job = resources->joined.job;
  resources->contribution_reader =
      std::make_unique<ContributionReader>(resources->data.train.get(), job, options_.replicas);
  ContributionRunnerOptions options;
  options.floats = resources->joined.layout.size();
  options.seed = job.seed();
  options.worker = worker_;
  options.chunk_delay = absl::Milliseconds(options_.fault.compute_delay_ms);
  resources->contributions = std::make_unique<ContributionRunner>(
      options, resources->contribution_reader.get(), resources->client.get(),
      resources->group.get(), stats, control, options_.clock);
}

SessionEnd ReplicaRunner::RunPrepared(SessionResources& resources, StatsCollector* stats,
                                      SessionControl* control) {
  const Job& job = resources.joined.job;
  SharedBuffer evaluated;
  ReplicaSession::Parts parts;
  parts.session = resources.joined.session;
  parts.coordinator = coordinator_;
  std::vector<std::unique_ptr<SessionWork>> kinds;
  if (resources.downpour != nullptr) {
    kinds.push_back(std::make_unique<TrainingWork>(resources.downpour.get(), resources.reader.get(),
                                                   job.downpour().overlap(), worker_,
                                                   options_.clock));
  }
  if (resources.synchronous != nullptr) {
    kinds.push_back(
        std::make_unique<SynchronousWork>(resources.synchronous.get(), worker_, options_.clock));
  }
  if (resources.contributions != nullptr) {
    kinds.push_back(
        std::make_unique<ContributionWork>(resources.contributions.get(), options_.clock));
  }
  for (const std::unique_ptr<SessionWork>& kind : kinds) {
    parts.work.push_back(kind.get());
  }
  parts.stats = stats;
  parts.control = control;
  parts.evaluate = [&](const std::string& vector) -> absl::StatusOr<EvaluationResult> {
    if (resources.data.test == nullptr) {
      return absl::InvalidArgumentError("an evaluation was asked for, but the job has no test set");
    }
    const auto stopped = [&] { return control->state() == SessionControl::State::kStop; };
    if (vector.empty() && resources.state != nullptr && resources.state->has()) {
      resources.group->SetParameters(resources.state->parameters());
      return EvaluateAll(resources.group.get(), *resources.data.test, job.evaluation().batch_size(),
                         stopped);
    }
    if (evaluated == nullptr) {
      evaluated =
          std::make_shared<AlignedFloats>(AlignedFloats::NanFilled(resources.joined.layout.size()));
      resources.group->LockPages(evaluated.get());
    }
    RETURN_IF_ERROR(
        FetchForEvaluation(resources.client.get(), control, vector, evaluated->span(), stats));
    resources.group->SetParameters(evaluated);
    absl::StatusOr<EvaluationResult> result = EvaluateAll(
        resources.group.get(), *resources.data.test, job.evaluation().batch_size(), stopped);
    if (result.ok() && !AllFinite(evaluated->span())) {
      // A ReLU may have made 0 of NaN, and the loss look like any other.
      result->loss_sum = std::numeric_limits<double>::quiet_NaN();
    }
    resources.group->Reclaim(&evaluated);
    return result;
  };
  ReplicaSession session(std::move(parts));
  SessionEnd end = session.Run();
  if (end.kind != SessionEnd::Kind::kFinished && end.kind != SessionEnd::Kind::kDrained) {
    resources.client->Cancel();  // calls in flight end before what made them is taken down
  }
  return end;
}

SessionEnd ReplicaRunner::Run(const Assignment& assignment, StatsCollector* stats,
                              SessionControl* control) {
  SessionResources resources;  // the parts point at each other: it stays where it is
  absl::Status prepared;
  try {
    prepared = Prepare(assignment, stats, control, &resources);
  } catch (const std::bad_alloc&) {
    prepared = absl::ResourceExhaustedError(
        "data, network and parameters do not fit into this machine's memory");
  }
  if (!prepared.ok()) {
    return NotBegun(prepared);
  }
  const JoinedJob& joined = resources.joined;
  const Job& job = joined.job;
  absl::Status same = CheckData(job.train(), joined.train_fingerprint, *resources.data.train);
  if (same.ok() && resources.data.test != nullptr) {
    same = CheckData(job.test(), joined.test_fingerprint, *resources.data.test);
  }
  if (!same.ok()) {
    return Failed(ReportFailureRequest::OTHER_DATA, same);
  }
  stats->SetFingerprints(resources.data.train->Fingerprint(),
                         resources.data.test == nullptr ? 0 : resources.data.test->Fingerprint());
  stats->SetBackends(resources.group->Fingerprints());
  LOG(INFO) << "session opened: job " << joined.session.job() << ", incarnation "
            << joined.session.incarnation() << ", " << joined.layout.parameters()
            << " parameters on " << joined.client_options.addresses.size() << " shards, "
            << resources.data.train->examples() << " examples, " << resources.group->live()
            << " replicas of " << options_.threads << " threads";
  const SessionWires wires(joined, resources.client.get(), stats, control,
                           [synchronous = resources.synchronous.get()] {
                             if (synchronous != nullptr) {
                               synchronous->Abort();
                             }
                           });
  SessionEnd end = RunPrepared(resources, stats, control);
  // They wait for their calls in flight, which a stop must be able to end.
  resources.contributions.reset();
  resources.downpour.reset();
  return end;
}

}  // namespace monsoon
