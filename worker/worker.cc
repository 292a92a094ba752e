#include "worker/worker.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "worker/replica/faulty_replica_client.h"
#include "worker/replica/replica_stats.h"
#include "worker/replica/work_source.h"

namespace monsoon {
namespace {

// One look for an assignment; stopping waits for it at most.
constexpr absl::Duration kAssignmentPoll = absl::Milliseconds(100);
// A session that ends badly at once must not turn in a tight circle.
constexpr absl::Duration kRejoinPause = absl::Milliseconds(200);
constexpr int kReportTries = 10;
constexpr absl::Duration kReportPause = absl::Milliseconds(200);

absl::Status CheckOptions(const WorkerOptions& options) {
  const int workers = options.cluster.worker_size();
  if (options.task >= static_cast<uint32_t>(workers)) {
    return absl::InvalidArgumentError(absl::StrCat("--task=", options.task, ", but cluster ",
                                                   options.cluster.name(), " has ", workers,
                                                   " workers, counted from 0"));
  }
  const WorkerTask& task = options.cluster.worker(static_cast<int>(options.task));
  if (task.device() == CUDA) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker/", options.task,
                     ": device CUDA is not built into this binary; use device: CPU or AUTO"));
  }
  const std::string address = options.address.empty() ? task.address() : options.address;
  if (options.fault.enabled() && !IsLoopback(address)) {
    return absl::FailedPreconditionError(
        absl::StrCat("--fault is for loopback addresses only, not ", address));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options) {
  RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<Worker> worker(new Worker(std::move(options)));
  const WorkerOptions& set = worker->options_;
  const WorkerTask& task = set.cluster.worker(static_cast<int>(set.task));
  if (task.device() == AUTO) {
    LOG(INFO) << "device AUTO: CPU";
  }
  ASSIGN_OR_RETURN(
      worker->server_,
      WorkerServer::Start(set.address.empty() ? task.address() : set.address, set.insecure));
  worker->member_->Start();
  worker->thread_ = std::thread([raw = worker.get()] { raw->Run(); });
  return worker;
}

Worker::Worker(WorkerOptions options) : options_(std::move(options)) {
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
  const uint32_t threads = std::max(1u, cluster.worker(static_cast<int>(options_.task)).threads());
  ClusterMember::Options member;
  member.cluster = cluster.name();
  member.task = options_.task;
  member.pid = static_cast<uint32_t>(getpid());
  member.threads = threads;
  member.heartbeat = absl::Milliseconds(cluster.heartbeat_ms());
  member_ = std::make_unique<ClusterMember>(std::move(member), heartbeat_client_.get());
  ReplicaRunner::Options runner;
  runner.task = options_.task;
  runner.threads = threads;
  runner.rpc_deadline = deadline;
  runner.fault = options_.fault;
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
  while (!winding()) {
    if (std::optional<Assignment> assignment = member_->AwaitAssignment(kAssignmentPoll)) {
      RunSession(*assignment);
    }
  }
  {
    MutexLock lock(&mutex_);
    ended_ = true;
  }
  changed_.NotifyAll();
}

void Worker::RunSession(const Assignment& assignment) {
  StatsCollector stats;
  SessionControl control(Clock::Real(), absl::Milliseconds(options_.cluster.lost_after_ms()));
  {
    MutexLock lock(&mutex_);
    if (winding_) {
      return;
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
  const std::string name =
      absl::StrCat(assignment.session().job(), "#", assignment.session().incarnation());
  switch (end.kind) {
    case SessionEnd::Kind::kFinished:
      LOG(INFO) << "session " << name << " finished";
      break;
    case SessionEnd::Kind::kDrained:
      LOG(INFO) << "session " << name << " drained";
      break;
    case SessionEnd::Kind::kStopped:
      LOG(INFO) << "session " << name << " stopped: " << end.message;
      break;
    case SessionEnd::Kind::kLost:
      LOG(WARNING) << "session " << name << " lost, joining again: " << end.message;
      control.Sleep(kRejoinPause);
      break;
    case SessionEnd::Kind::kFailed:
      LOG(ERROR) << "session " << name << " failed: " << end.message;
      ReportFailure(assignment.session(), end);
      break;
  }
  if (end.kind == SessionEnd::Kind::kDrained) {
    member_->Beat();  // with the final figures, while they still stand
  }
  member_->Exit(/*rejoin=*/end.kind == SessionEnd::Kind::kLost);
  MutexLock lock(&mutex_);
  control_ = nullptr;
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
  if (const absl::Status status = member_->Depart(); !status.ok()) {
    LOG(WARNING) << "the coordinator was not told of the departure: "
                 << std::string(status.message());
  }
}

}  // namespace monsoon
