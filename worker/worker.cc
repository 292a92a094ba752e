#include "worker/worker.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/random_id.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/config/worker_roots.h"
#include "common/data/access/data_access.h"
#include "common/process/host_name.h"
#include "common/transport/own_tls.h"
#include "worker/backend/device.h"
#include "worker/data/data_report.h"
#include "worker/session/cluster_member.h"
#include "worker/session/faulty_replica_client.h"

namespace monsoon {
namespace {

const WorkerTask& SettingsOf(const WorkerOptions& options) {
  return options.settings ? *options.settings
                          : options.cluster.worker(static_cast<int>(options.task));
}

absl::Status CheckOptions(const WorkerOptions& options) {
  const int workers = options.cluster.worker_size();
  if (options.guest != 0 && !options.settings) {
    return absl::InvalidArgumentError("a guest needs settings of its own");
  }
  if (options.guest == 0 && options.task >= static_cast<uint32_t>(workers)) {
    return absl::InvalidArgumentError(absl::StrCat("--task=", options.task, ", but cluster ",
                                                   options.cluster.name(), " has ", workers,
                                                   " workers, counted from 0"));
  }
  const WorkerTask& task = SettingsOf(options);
  const std::string address = options.address.empty() ? task.address() : options.address;
  if (options.fault.enabled() && !IsLoopback(address)) {
    return absl::FailedPreconditionError(
        absl::StrCat("--fault is for loopback addresses only, not ", address));
  }
  return absl::OkStatus();
}

void LogDevices(const WorkerTask& task, const ReplicaRunner::Options& runner,
                const BackendChoice& choice) {
  if (choice.is_warning) {
    LOG(WARNING) << (choice.kind == BackendKind::kCuda ? "" : "no GPU is used: ") << choice.note;
  }
  if (runner.backend != BackendKind::kCuda) {
    LOG(INFO) << "computes on the CPU (device: " << Device_Name(task.device())
              << "), replicas: " << runner.replicas << ", threads of each: " << runner.threads
              << "; " << DescribeCuda()
              << (choice.note.empty() || choice.is_warning ? "" : "; " + choice.note);
    return;
  }
  LOG(INFO) << DescribeCuda();
  for (uint32_t i = 0; i < runner.replicas; ++i) {
    LOG(INFO) << "replica " << i << " computes on GPU " << runner.DeviceOf(i)
              << " (device: " << Device_Name(task.device()) << "), "
              << DescribeCudaDevice(runner.DeviceOf(i));
  }
}

}  // namespace

std::string Worker::PeerAddress() const {
  // A listed worker is reached where the cluster file says, whatever it has bound.
  const std::string& listed = SettingsOf(options_).address();
  const bool has_port = options_.address.empty() && !absl::EndsWith(listed, ":0");
  return has_port ? listed : server_->address();
}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options) {
  RETURN_IF_ERROR(CheckOptions(options));
  const WorkerTask& chosen = SettingsOf(options);
  const absl::StatusOr<BackendChoice> backend =
      ChooseBackend(chosen.device(), chosen.device_index(), std::max(1u, chosen.replicas()));
  if (!backend.ok()) {
    return Annotate(backend.status(),
                    options.guest != 0 ? "worker" : absl::StrCat("worker/", options.task));
  }
  ASSIGN_OR_RETURN(
      const DataRoots data_roots,
      RootsOfWorker(options.data_folders, chosen, options.cluster, options.beside_owner));
  LOG(INFO) << "opens files of jobs "
            << (data_roots.anywhere()       ? "wherever its user may read"
                : data_roots.Text().empty() ? "nowhere"
                                            : absl::StrCat("below ", data_roots.Text(), " alone"));
  std::unique_ptr<Worker> worker(new Worker(std::move(options), *backend, data_roots));
  const WorkerOptions& set = worker->options_;
  const WorkerTask& task = SettingsOf(set);
  const auto on_trouble = [trouble = &worker->trouble_](const std::string& text) {
    trouble->Set(text);
  };
  ASSIGN_OR_RETURN(worker->server_,
                   WorkerServer::Start(set.address.empty() ? task.address() : set.address,
                                       &worker->mailbox_, set.tls, set.insecure, on_trouble));
  worker->host_->Start();
  return worker;
}

ReplicaRunner::Options Worker::RunnerOptions(const BackendChoice& choice,
                                             const DataRoots& data_roots, absl::Duration deadline) {
  const WorkerTask& task = SettingsOf(options_);
  ReplicaRunner::Options runner;
  runner.tls = options_.tls;
  runner.threads = std::max(1u, task.threads());
  runner.replicas = std::max(1u, task.replicas());
  runner.backend = choice.kind;
  runner.device_index = task.device_index();
  // Asking loads the driver, which a CPU worker does not need.
  runner.devices =
      choice.kind == BackendKind::kCuda ? static_cast<uint32_t>(std::max(1, CudaDeviceCount())) : 1;
  runner.device_memory_limit_bytes = uint64_t{task.device_memory_limit_mib()} << 20;
  runner.replay_window_bytes = uint64_t{task.replay_window_mib()} << 20;
  runner.rpc_deadline = deadline;
  runner.fault = options_.fault;
  runner.data_roots = data_roots;
  runner.peers = {.mailbox = &mailbox_,
                  .address = [this] { return PeerAddress(); },
                  .offer = [this] { return server_->offer(); },
                  .tls = options_.tls,
                  .caller = OwnMemberName(options_.tls.get())};
  return runner;
}

Worker::Worker(WorkerOptions options, const BackendChoice& choice, const DataRoots& data_roots)
    : options_(std::move(options)) {
  const Cluster& cluster = options_.cluster;
  const absl::Duration deadline = absl::Milliseconds(cluster.rpc_deadline_ms());
  const absl::Duration lost_after = absl::Milliseconds(cluster.lost_after_ms());
  const auto connect = [this, &cluster, deadline, lost_after] {
    std::unique_ptr<ReplicaClient> client = ReplicaClient::Create(
        cluster.coordinator().address(), std::min(deadline, lost_after), options_.tls);
    if (options_.fault.enabled()) {
      client = MakeFaultyReplicaClient(std::move(client), options_.fault);
    }
    return options_.wrap_coordinator ? options_.wrap_coordinator(std::move(client))
                                     : std::move(client);
  };
  heartbeat_client_ = connect();
  work_client_ = connect();
  const WorkerTask& task = SettingsOf(options_);
  const uint32_t threads = std::max(1u, task.threads());
  ClusterMember::Options member;
  member.cluster = cluster.name();
  if (options_.guest != 0) {
    member.guest = options_.guest;
  } else {
    member.task = options_.task;
  }
  member.process = RandomId();
  member.host = HostName();
  member.trouble = [this] { return trouble_.Get(); };
  member.pid = static_cast<uint32_t>(getpid());
  member.device = choice.kind == BackendKind::kCuda ? "CUDA" : "CPU";
  member.threads = threads;
  member.heartbeat = absl::Milliseconds(cluster.heartbeat_ms());
  const ReplicaRunner::Options runner = RunnerOptions(choice, data_roots, deadline);
  LogDevices(task, runner, choice);
  runner_ = std::make_unique<ReplicaRunner>(runner, work_client_.get());
  SessionHost::Options host;
  host.member = std::move(member);
  host.lost_after = lost_after;
  host.on_device_lost = options_.on_device_lost;
  host.calls.on_refused = options_.on_refused;
  host.calls.on_drain = options_.on_drain;
  host.calls.look_at_data = [access = DataAccess::ForJobs(data_roots)](const Job& job) {
    return ReportData(job, access);
  };
  host_ = std::make_unique<SessionHost>(std::move(host), heartbeat_client_.get(),
                                        work_client_.get(), runner_.get());
}

}  // namespace monsoon
