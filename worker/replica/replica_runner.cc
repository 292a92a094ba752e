#include "worker/replica/replica_runner.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "worker/backend/backend.h"
#include "worker/data/open_dataset.h"
#include "worker/nn/aligned_buffer.h"
#include "worker/replica/evaluator.h"
#include "worker/replica/group/breaking_network.h"
#include "worker/replica/local_updater.h"
#include "worker/replica/work_source.h"

namespace monsoon {
namespace {

constexpr absl::Duration kRetryPause = absl::Milliseconds(20);
// Train and test of one job.
constexpr size_t kDatasetsKept = 2;

size_t InputValues(const Model& model) {
  size_t values = 1;
  for (const uint32_t extent : model.input_shape()) {
    values *= extent;
  }
  return values;
}

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

std::vector<std::string> Files(const Dataset& dataset) {
  switch (dataset.source_case()) {
    case Dataset::kIdx:
      return {dataset.idx().images(), dataset.idx().labels()};
    case Dataset::kNpy:
      return {dataset.npy().images(), dataset.npy().labels()};
    default:
      return {};
  }
}

// Differs for another description, and for a file that was replaced or written.
std::string DatasetKey(const Dataset& dataset, size_t values) {
  std::string key = absl::StrCat(values, ":", dataset.SerializeAsString());
  for (const std::string& file : Files(dataset)) {
    struct stat info {};
    stat(file.c_str(), &info);  // Whoever opens it tells the errors.
    absl::StrAppend(&key, ":", info.st_dev, ":", info.st_ino, ":", info.st_size, ":",
                    info.st_mtim.tv_sec, ":", info.st_mtim.tv_nsec);
  }
  return key;
}

// Fetches until a shard answers or the session stops.
absl::Status FetchForEvaluation(ParameterClient* client, SessionControl* control,
                                std::span<float> parameters, StatsCollector* stats) {
  while (true) {
    FetchStats fetch;
    const absl::Status status = client->FetchExact(parameters, nullptr, &fetch);
    if (status.ok()) {
      stats->AddEvaluationFetch(fetch);
      return status;
    }
    if (!IsTransient(status) || absl::IsCancelled(status) ||
        control->state() == SessionControl::State::kStop) {
      return status;
    }
    stats->AddRetry();
    control->Sleep(kRetryPause);
  }
}

}  // namespace

ReplicaRunner::ReplicaRunner(const Options& options, ReplicaClient* coordinator)
    : options_(options), coordinator_(coordinator) {}

absl::StatusOr<std::shared_ptr<const DataSource>> ReplicaRunner::Open(const Dataset& dataset,
                                                                      const Model& model) {
  const size_t values = InputValues(model);
  const std::string key = DatasetKey(dataset, values);
  std::shared_ptr<const DataSource>& source = opened_[key];
  if (source == nullptr) {
    absl::StatusOr<std::unique_ptr<DataSource>> opened = OpenDataset(dataset, values);
    if (!opened.ok()) {
      opened_.erase(key);
      return absl::DataLossError(
          absl::StrCat("worker/", options_.task, ": ", opened.status().message()));
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
      options_.task, found.Fingerprint(), expected, dataset.ShortDebugString()));
}

absl::StatusOr<std::unique_ptr<ParameterClient>> ReplicaRunner::Connect(
    const Assignment& assignment, const ShardMap& map) {
  ParameterClientOptions options;
  options.job = assignment.session().job();
  options.worker = assignment.session().worker();
  options.incarnation = assignment.session().incarnation();
  options.layout_hash = assignment.layout_hash();
  options.map = map;
  options.addresses = {assignment.shard_address().begin(), assignment.shard_address().end()};
  options.epochs = {assignment.shard_epoch().begin(), assignment.shard_epoch().end()};
  options.deadline = options_.rpc_deadline;
  options.fault = options_.fault;
  const Downpour& downpour = assignment.job().downpour();
  options.push_format = downpour.push_format();
  options.fetch_format = downpour.fetch_format();
  options.top_k_share = downpour.top_k_share();
  return ParameterClient::Create(std::move(options));
}

absl::Status ReplicaRunner::Prepare(const Assignment& assignment, StatsCollector* stats,
                                    SessionControl* control, Workplace* place) {
  const Job& job = assignment.job();
  ASSIGN_OR_RETURN(place->layout, ParameterLayout::Create(job.model()));
  if (place->layout.Hash() != assignment.layout_hash()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "worker/%d derives layout %016x from the model, the coordinator %016x: mixed builds",
        options_.task, place->layout.Hash(), assignment.layout_hash()));
  }
  ASSIGN_OR_RETURN(
      const ShardMap map,
      ShardMap::Create(place->layout.size(), static_cast<uint32_t>(assignment.shard_address_size()),
                       assignment.max_stripe_bytes()));
  if (opened_.size() > kDatasetsKept) {
    opened_.clear();
  }
  ASSIGN_OR_RETURN(place->train, Open(job.train(), job.model()));
  if (job.has_test()) {
    ASSIGN_OR_RETURN(place->test, Open(job.test(), job.model()));
  }
  RETURN_IF_ERROR(MakeGroup(job, stats, place));
  ASSIGN_OR_RETURN(place->client, Connect(assignment, map));
  if (job.has_sandblaster()) {
    AddSandblaster(job, stats, control, place);
  }
  return job.has_downpour() ? AddDownpour(job, map, stats, control, place) : absl::OkStatus();
}

absl::Status ReplicaRunner::MakeGroup(const Job& job, StatsCollector* stats, Workplace* place) {
  MemberGroup::Options options;
  options.worker = options_.task;
  options.stats = stats;
  const auto make = [&](uint32_t member) -> absl::StatusOr<std::unique_ptr<Network>> {
    NetworkOptions network;
    network.threads = static_cast<int>(options_.threads);
    network.device_index = options_.DeviceOf(member);
    network.memory_limit_bytes = options_.device_memory_limit_bytes;
    network.precision = PrecisionOf(job);
    ASSIGN_OR_RETURN(std::unique_ptr<Network> made,
                     CreateNetwork(options_.backend, job.model(), place->layout, network));
    if (options_.fault.break_device_after > 0 && member == 0) {
      made = MakeBreakingNetwork(std::move(made), options_.fault.break_device_after);
    }
    return made;
  };
  absl::StatusOr<std::unique_ptr<MemberGroup>> group =
      MemberGroup::Create(options, options_.replicas, make);
  if (!group.ok()) {
    // Of the model or job, or of this machine's devices.
    const absl::Status& status = group.status();
    return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)
               ? status
               : absl::ResourceExhaustedError(
                     absl::StrCat("no device for the model: ", status.message()));
  }
  place->group = *std::move(group);
  return absl::OkStatus();
}

absl::Status ReplicaRunner::AddDownpour(const Job& job, const ShardMap& map, StatsCollector* stats,
                                        SessionControl* control, Workplace* place) {
  ASSIGN_OR_RETURN(std::unique_ptr<LocalUpdater> local, LocalUpdater::Create(job.downpour(), map));
  place->loop = std::make_unique<DownpourLoop>(
      DownpourLoopOptions::From(job, options_.task), &place->layout, place->client.get(),
      place->group.get(), std::move(local), stats, control, options_.clock);
  place->reader = std::make_unique<PrefetchingReader>(place->train.get(), job, options_.replicas);
  return absl::OkStatus();
}

void ReplicaRunner::AddSandblaster(const Job& job, StatsCollector* stats, SessionControl* control,
                                   Workplace* place) {
  place->contribution_reader =
      std::make_unique<ContributionReader>(place->train.get(), job, options_.replicas);
  ContributionRunnerOptions options;
  options.floats = place->layout.size();
  options.seed = job.seed();
  options.worker = options_.task;
  options.chunk_delay = absl::Milliseconds(options_.fault.compute_delay_ms);
  place->contributions = std::make_unique<ContributionRunner>(
      options, place->contribution_reader.get(), place->client.get(), place->group.get(), stats,
      control, options_.clock);
}

SessionEnd ReplicaRunner::RunPrepared(const Assignment& assignment, Workplace& place,
                                      StatsCollector* stats, SessionControl* control) {
  const Job& job = assignment.job();
  SharedBuffer evaluated;
  ReplicaSession::Parts parts;
  parts.session = assignment.session();
  parts.overlap = job.downpour().overlap();
  parts.coordinator = coordinator_;
  parts.loop = place.loop.get();
  parts.reader = place.reader.get();
  parts.contributions = place.contributions.get();
  parts.stats = stats;
  parts.control = control;
  parts.clock = options_.clock;
  parts.evaluate = [&]() -> absl::StatusOr<EvaluationResult> {
    if (place.test == nullptr) {
      return absl::InvalidArgumentError("an evaluation was asked for, but the job has no test set");
    }
    if (evaluated == nullptr) {
      evaluated = std::make_shared<AlignedBuffer>(place.layout.size());
    }
    RETURN_IF_ERROR(FetchForEvaluation(place.client.get(), control, evaluated->span(), stats));
    place.group->SetParameters(evaluated);
    absl::StatusOr<EvaluationResult> result =
        EvaluateAll(place.group.get(), *place.test, job.evaluation().batch_size(),
                    [&] { return control->state() == SessionControl::State::kStop; });
    place.group->Reclaim(&evaluated);
    return result;
  };
  ReplicaSession session(std::move(parts));
  SessionEnd end = session.Run();
  if (end.kind != SessionEnd::Kind::kFinished && end.kind != SessionEnd::Kind::kDrained) {
    place.client->Cancel();  // calls in flight end before what made them is taken down
  }
  return end;
}

SessionEnd ReplicaRunner::Run(const Assignment& assignment, StatsCollector* stats,
                              SessionControl* control) {
  Workplace place;  // the parts point at each other: it stays where it is
  if (absl::Status status = Prepare(assignment, stats, control, &place); !status.ok()) {
    return Failed(absl::IsDataLoss(status)            ? ReportFailureRequest::DATA
                  : absl::IsResourceExhausted(status) ? ReportFailureRequest::REPLICA
                                                      : ReportFailureRequest::JOB,
                  status);
  }
  const Job& job = assignment.job();
  absl::Status same = CheckData(job.train(), assignment.train_fingerprint(), *place.train);
  if (same.ok() && place.test != nullptr) {
    same = CheckData(job.test(), assignment.test_fingerprint(), *place.test);
  }
  if (!same.ok()) {
    return Failed(ReportFailureRequest::OTHER_DATA, same);
  }
  stats->SetFingerprints(place.train->Fingerprint(),
                         place.test == nullptr ? 0 : place.test->Fingerprint());
  stats->SetBackends(place.group->Fingerprints());
  LOG(INFO) << "session opened: job " << assignment.session().job() << ", incarnation "
            << assignment.session().incarnation() << ", " << place.layout.parameters()
            << " parameters on " << assignment.shard_address_size() << " shards, "
            << place.train->examples() << " examples, " << place.group->live() << " replicas of "
            << options_.threads << " threads";
  control->OnStop([client = place.client.get()] { client->Cancel(); });
  SessionEnd end = RunPrepared(assignment, place, stats, control);
  // They wait for their calls in flight, which a stop must be able to end.
  place.contributions.reset();
  place.loop.reset();
  control->OnStop(nullptr);
  return end;
}

}  // namespace monsoon
