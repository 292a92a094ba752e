#include "worker/worker.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "worker/backend/device.h"
#include "worker/session/faulty_replica_client.h"
#include "worker/session/replica_stats.h"
#include "worker/session/work_source.h"

namespace monsoon {
namespace {

// One look for an assignment; stopping waits for it at most.
constexpr absl::Duration kAssignmentPoll = absl::Milliseconds(100);
// A session that ends badly at once must not turn in a tight circle.
constexpr absl::Duration kRejoinPause = absl::Milliseconds(200);
constexpr int kReportTries = 10;
constexpr absl::Duration kReportPause = absl::Milliseconds(200);

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "";
}

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

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options) {
  RETURN_IF_ERROR(CheckOptions(options));
  const WorkerTask& chosen = SettingsOf(options);
  const absl::StatusOr<BackendChoice> backend =
      ChooseBackend(chosen.device(), chosen.device_index(), std::max(1u, chosen.replicas()));
  if (!backend.ok()) {
    return Annotate(backend.status(),
                    options.guest != 0 ? "worker" : absl::StrCat("worker/", options.task));
  }
  std::unique_ptr<Worker> worker(new Worker(std::move(options), *backend));
  const WorkerOptions& set = worker->options_;
  const WorkerTask& task = SettingsOf(set);
  ASSIGN_OR_RETURN(
      worker->server_,
      WorkerServer::Start(set.address.empty() ? task.address() : set.address, set.insecure));
  worker->member_->Start();
  worker->thread_ = std::thread([raw = worker.get()] { raw->Run(); });
  return worker;
}

Worker::Worker(WorkerOptions options, const BackendChoice& choice) : options_(std::move(options)) {
  const Cluster& cluster = options_.cluster;
  const absl::Duration deadline = absl::Milliseconds(cluster.rpc_deadline_ms());
  const absl::Duration lost_after = absl::Milliseconds(cluster.lost_after_ms());
  const auto connect = [this, &cluster, deadline, lost_after] {
    std::unique_ptr<ReplicaClient> client =
        ReplicaClient::Create(cluster.coordinator().address(), std::min(deadline, lost_after));
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
    member.host = HostName();
  } else {
    member.task = options_.task;
  }
  member.pid = static_cast<uint32_t>(getpid());
  member.device = choice.kind == BackendKind::kCuda ? "CUDA" : "CPU";
  member.threads = threads;
  member.heartbeat = absl::Milliseconds(cluster.heartbeat_ms());
  member_ = std::make_unique<ClusterMember>(std::move(member), heartbeat_client_.get(),
                                            options_.on_refused, options_.on_drain);
  ReplicaRunner::Options runner;
  runner.threads = threads;
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
  LogDevices(task, runner, choice);
  runner_ = std::make_unique<ReplicaRunner>(runner, work_client_.get());
}

Worker::~Worker() {
  Wind(/*drain=*/false);
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Worker::Wind(bool drain) {
  MutexLock lock(&mutex_);
  winding_ = true;
  drains_ = drain;
  if (control_ != nullptr) {
    if (drain) {
      control_->Drain();
    } else {
      control_->Stop();
    }
  }
}

bool Worker::winding() const {
  MutexLock lock(&mutex_);
  return winding_;
}

void Worker::Run() {
  bool computes = true;
  while (computes && !winding()) {
    if (std::optional<Assignment> assignment = member_->AwaitAssignment(kAssignmentPoll)) {
      computes = RunSession(*assignment);
    }
  }
  if (!computes) {
    Depart();  // else it is given the next session
  }
  {
    MutexLock lock(&mutex_);
    ended_ = true;
  }
  changed_.NotifyAll();
  if (!computes && options_.on_device_lost) {
    options_.on_device_lost();
  }
}

bool Worker::RunSession(const Assignment& assignment) {
  StatsCollector stats;
  SessionControl control(Clock::Real(), absl::Milliseconds(options_.cluster.lost_after_ms()));
  {
    MutexLock lock(&mutex_);
    if (winding_) {
      return true;
    }
    control_ = &control;
  }
  member_->Enter(assignment.session(), &stats, &control);
  SessionEnd end = runner_->Run(assignment, &stats, &control);
  if (end.kind == SessionEnd::Kind::kLost) {
    // Shards close a session a little before the coordinator tells. It knows
    // whether this worker was lost or the job has ended.
    member_->Beat();
    if (control.state() == SessionControl::State::kStop) {
      end.kind = SessionEnd::Kind::kStopped;
    }
  }
  LogEnd(assignment.session(), end);
  const bool device_lost = end.kind == SessionEnd::Kind::kDeviceLost;
  if (end.kind == SessionEnd::Kind::kLost) {
    control.Sleep(kRejoinPause);
  } else if (end.kind == SessionEnd::Kind::kFailed || device_lost) {
    ReportFailure(assignment.session(), end);
  }
  if (end.kind == SessionEnd::Kind::kDrained) {
    member_->Beat();  // with the final figures, while they still stand
  }
  member_->Exit(/*rejoin=*/end.kind == SessionEnd::Kind::kLost);
  MutexLock lock(&mutex_);
  control_ = nullptr;
  return !device_lost;
}

void Worker::LogEnd(const SessionKey& session, const SessionEnd& end) const {
  const std::string name = absl::StrCat("session ", session.job(), "#", session.incarnation());
  switch (end.kind) {
    case SessionEnd::Kind::kFinished:
      LOG(INFO) << name << " finished";
      break;
    case SessionEnd::Kind::kDrained:
      LOG(INFO) << name << " drained";
      break;
    case SessionEnd::Kind::kStopped:
      LOG(INFO) << name << " stopped: " << end.message;
      break;
    case SessionEnd::Kind::kLost:
      LOG(WARNING) << name << " lost, joining again: " << end.message;
      break;
    case SessionEnd::Kind::kFailed:
      LOG(ERROR) << name << " failed: " << end.message;
      break;
    case SessionEnd::Kind::kDeviceLost:
      LOG(ERROR) << name << " ended, and this worker leaves: " << end.message;
      break;
  }
}

void Worker::ReportFailure(const SessionKey& session, const SessionEnd& end) {
  ReportFailureRequest request;
  *request.mutable_session() = session;
  request.set_kind(end.failure);
  request.set_message(end.message);
  for (int i = 0; i < kReportTries && !winding(); ++i) {
    const absl::Status status = work_client_->ReportFailure(request).status();
    if (status.ok() || !IsTransient(status)) {
      return;
    }
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, kReportPause);
  }
}

void Worker::Drain(absl::Duration grace) {
  Wind(/*drain=*/true);
  {
    MutexLock lock(&mutex_);
    const bool ended = changed_.WaitFor(&mutex_, grace, [this] {
      mutex_.AssertHeld();
      return ended_;
    });
    if (!ended) {
      LOG(WARNING) << "the push did not end within " << absl::FormatDuration(grace)
                   << "; it is given up";
    }
  }
  Wind(/*drain=*/false);
  if (thread_.joinable()) {
    thread_.join();
  }
  Depart();
}

void Worker::Depart() {
  if (const absl::Status status = member_->Depart(); !status.ok()) {
    LOG(WARNING) << "the coordinator was not told of the departure: "
                 << std::string(status.message());
  }
}

}  // namespace monsoon
