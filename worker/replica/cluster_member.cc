#include "worker/replica/cluster_member.h"

#include <utility>

#include "common/base/logging.h"
#include "common/rpc/protocol.h"

namespace monsoon {

bool SameSession(const SessionKey& a, const SessionKey& b) {
  return a.job() == b.job() && a.worker() == b.worker() && a.incarnation() == b.incarnation();
}

ClusterMember::ClusterMember(Options options, ReplicaClient* client)
    : options_(std::move(options)), client_(client), heartbeat_(options_.heartbeat) {}

ClusterMember::~ClusterMember() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ClusterMember::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ClusterMember::Run() {
  while (true) {
    Beat();
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, heartbeat_, [this] {
      mutex_.AssertHeld();
      return stopping_ || beat_now_;
    });
    if (stopping_) {
      return;
    }
    beat_now_ = false;
  }
}

HeartbeatRequest ClusterMember::MakeRequest() {
  HeartbeatRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_cluster(options_.cluster);
  request.set_task(options_.task);
  request.set_incarnation(incarnation_);
  request.set_pid(options_.pid);
  request.set_device(options_.device);
  request.set_threads(options_.threads);
  if (session_.has_value()) {
    *request.mutable_session() = *session_;
    *request.mutable_stats() = stats_->Snapshot();
  }
  return request;
}

void ClusterMember::Beat() {
  MutexLock beat(&beat_mutex_);
  HeartbeatRequest request;
  {
    MutexLock lock(&mutex_);
    if (stopping_) {
      return;
    }
    request = MakeRequest();
  }
  const absl::StatusOr<HeartbeatReply> reply = client_->Heartbeat(request);
  MutexLock lock(&mutex_);
  if (!reply.ok()) {
    Missed(reply.status());
  } else if (request.incarnation() == incarnation_) {
    Apply(*reply);
  }  // else the answer is for an incarnation given up meanwhile
  changed_.NotifyAll();
}

void ClusterMember::Missed(const absl::Status& status) {
  std::string trouble = status.ToString();
  if (reached_ || trouble_.empty()) {
    LOG(WARNING) << "no answer from the coordinator, trying again: " << trouble;
  }
  reached_ = false;
  trouble_ = std::move(trouble);
}

void ClusterMember::Apply(const HeartbeatReply& reply) {
  reached_ = true;
  trouble_.clear();
  if (reply.heartbeat_ms() > 0) {
    heartbeat_ = absl::Milliseconds(reply.heartbeat_ms());
  }
  if (reply.rejoin()) {
    LOG(WARNING) << "the coordinator lost this worker; joining again";
    incarnation_ = 0;
    assignment_.reset();
    beat_now_ = true;
    if (control_ != nullptr) {
      control_->Stop();
    }
    return;
  }
  if (incarnation_ != reply.incarnation()) {
    LOG(INFO) << "joined cluster " << options_.cluster << " as worker/" << options_.task
              << " incarnation " << reply.incarnation();
    incarnation_ = reply.incarnation();
  }
  if (reply.has_assignment()) {
    assignment_ = reply.assignment();
  } else {
    assignment_.reset();
  }
  if (control_ == nullptr) {
    return;
  }
  control_->Heard();
  if (!assignment_.has_value() || !SameSession(assignment_->session(), *session_)) {
    LOG(INFO) << "the coordinator ends session " << session_->job() << "#"
              << session_->incarnation();
    control_->Stop();
  }
}

std::optional<Assignment> ClusterMember::AwaitAssignment(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  const bool given = changed_.WaitFor(&mutex_, timeout, [this] {
    mutex_.AssertHeld();
    return assignment_.has_value() &&
           !(ended_.has_value() && SameSession(*ended_, assignment_->session()));
  });
  return given ? assignment_ : std::nullopt;
}

void ClusterMember::Enter(const SessionKey& session, const StatsCollector* stats,
                          SessionControl* control) {
  MutexLock lock(&mutex_);
  session_ = session;
  stats_ = stats;
  control_ = control;
}

void ClusterMember::Exit(bool rejoin) {
  {
    MutexLock lock(&mutex_);
    ended_ = std::exchange(session_, std::nullopt);
    stats_ = nullptr;
    control_ = nullptr;
    if (rejoin) {
      incarnation_ = 0;
      assignment_.reset();
    }
    beat_now_ = true;
  }
  changed_.NotifyAll();
}

absl::Status ClusterMember::Depart() {
  HeartbeatRequest request;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    request = MakeRequest();
  }
  changed_.NotifyAll();
  MutexLock beat(&beat_mutex_);
  request.set_leaving(true);
  return client_->Heartbeat(request).status();
}

}  // namespace monsoon
