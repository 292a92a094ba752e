#include "worker/session/cluster_member.h"

#include <utility>

#include "common/base/lasting.h"
#include "common/base/logging.h"

namespace monsoon {

namespace {

// The coordinator's cluster file or this worker's credential has to change for one that is refused
// so.
bool IsFinal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status) ||
         absl::IsPermissionDenied(status);
}

bool WasNotAnswered(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

}  // namespace

ClusterMember::ClusterMember(Options options, ReplicaClient* client, Calls calls)
    : client_(client),
      calls_(std::move(calls)),
      membership_(std::move(options)),
      looker_(calls_.look_at_data, [this] { BeatNow(); }) {}

ClusterMember::~ClusterMember() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) {
    thread_.Join();
  }
}

void ClusterMember::Start() {
  thread_ = Thread([this] { Run(); });
}

void ClusterMember::Run() {
  while (true) {
    Beat();
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, membership_.heartbeat(), [this] {
      mutex_.AssertHeld();
      return stopping_ || beat_now_;
    });
    if (stopping_) {
      return;
    }
    beat_now_ = false;
  }
}

void ClusterMember::BeatNow() {
  {
    MutexLock lock(&mutex_);
    beat_now_ = true;
  }
  changed_.NotifyAll();
}

HeartbeatRequest ClusterMember::MakeRequest() {
  HeartbeatRequest request = membership_.MakeRequest();
  if (session_.has_value()) {
    *request.mutable_session() = *session_;
    *request.mutable_stats() = stats_->Snapshot();
    request.set_settings_revision(control_->taken_settings());
    const KeptPushes kept = stats_->kept();
    request.set_wants_checkpoint(kept.wants_checkpoint);
    request.set_stands_still(kept.stands_still);
    if (kept.silent_shard.has_value()) {
      request.set_silent_shard(*kept.silent_shard);
    }
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
  if (const std::optional<DataReport> report = looker_.report()) {
    *request.mutable_data_report() = *report;
  }
  const absl::StatusOr<HeartbeatReply> reply = client_->Heartbeat(request);
  bool may_join = true;
  bool leaves = false;
  bool job_ended = false;
  bool enter_again = false;
  {
    MutexLock lock(&mutex_);
    if (stopping_) {
      return;
    }
    if (!reply.ok()) {
      may_join = Missed(reply.status());
    } else {
      Apply(request, *reply);
      leaves = reply->drain() && !std::exchange(drains_, true);
      job_ended = membership_.job_end().has_value() && !std::exchange(job_ended_, true);
      enter_again = reply->enter_again() && !session_.has_value();
    }
  }
  changed_.NotifyAll();
  if (reply.ok() && reply->has_data_question()) {
    looker_.Ask(reply->data_question(), reply->term());
  }
  if (leaves) {
    LOG(INFO) << "the coordinator tells this worker to leave";
    if (calls_.on_drain) {
      calls_.on_drain();
    }
  }
  if (job_ended && calls_.on_job_ended) {
    calls_.on_job_ended(reply->job_ended(), reply->job_reason());
  }
  if (enter_again && calls_.on_enter_again) {
    calls_.on_enter_again();
  }
  if (!may_join && calls_.on_refused) {
    calls_.on_refused(reply.status());
  }
}

bool ClusterMember::Missed(const absl::Status& status) {
  // Of a member, whoever answers in the place of its coordinator may be a passing guest there.
  if (IsFinal(status) || (membership_.incarnation() == 0 && IsLasting(status))) {
    LOG(ERROR) << "this worker can never join: " << status.message();
    stopping_ = true;  // no more beats
    return false;
  }
  if (troubles_.Add(status.message())) {
    LOG(WARNING) << (WasNotAnswered(status) ? "no answer from the coordinator"
                                            : "the coordinator refuses this worker")
                 << ", trying again: " << status.message();
  }
  return true;
}

void ClusterMember::Apply(const HeartbeatRequest& request, const HeartbeatReply& reply) {
  const ReplicaMembership::Outcome outcome = membership_.Apply(request, reply);
  if (outcome == ReplicaMembership::Outcome::kStale) {
    return;
  }
  troubles_.Clear();
  if (outcome == ReplicaMembership::Outcome::kRejoin) {
    LOG(WARNING) << "the coordinator lost this worker; joining again";
    beat_now_ = true;
    if (control_ != nullptr) {
      control_->Stop();
    }
    return;
  }
  if (outcome == ReplicaMembership::Outcome::kJoined) {
    LOG(INFO) << "joined as " << membership_.Name() << " incarnation " << reply.incarnation();
  }
  if (control_ == nullptr) {
    return;
  }
  control_->Heard();
  if (!membership_.Assigned(*session_)) {
    LOG(INFO) << "the coordinator ends session " << session_->job() << "#"
              << session_->incarnation();
    control_->Stop();
  } else if (reply.has_assignment()) {
    const auto& epochs = reply.assignment().shard_epoch();
    control_->TellShards({{epochs.begin(), epochs.end()}, reply.assignment().keep_pushes()});
    control_->TellReplicas(membership_.replicas());
    control_->TellLocalSteps(membership_.local_steps());
    control_->TellSettings(reply.assignment().settings_revision(),
                           reply.assignment().job().downpour());
  }
}

std::optional<Assignment> ClusterMember::AwaitAssignment(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  const bool given = changed_.WaitFor(&mutex_, timeout, [this] {
    mutex_.AssertHeld();
    return membership_.assignment() != nullptr;
  });
  return given ? std::optional(*membership_.assignment()) : std::nullopt;
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
    membership_.Leave(std::exchange(session_, std::nullopt), rejoin);
    stats_ = nullptr;
    control_ = nullptr;
  }
  BeatNow();
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
