#include "coordinator/client/replica_membership.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/transport/frame/protocol.h"

namespace monsoon {

bool SameSession(const SessionKey& a, const SessionKey& b) {
  return a.job() == b.job() && a.worker() == b.worker() && a.incarnation() == b.incarnation() &&
         a.job_term() == b.job_term();
}

ReplicaMembership::ReplicaMembership(Options options)
    : options_(std::move(options)), heartbeat_(options_.heartbeat) {}

std::string ReplicaMembership::Name() const {
  const bool unnumbered = options_.guest != 0 && incarnation_ == 0;
  return absl::StrCat(unnumbered ? "a guest" : absl::StrCat("worker/", options_.task),
                      " of cluster ", options_.cluster);
}

HeartbeatRequest ReplicaMembership::MakeRequest() const {
  HeartbeatRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_cluster(options_.cluster);
  request.set_task(options_.task);
  request.set_incarnation(incarnation_);
  request.set_term(term_);
  request.set_guest(options_.guest);
  request.set_process(options_.process);
  request.set_host(options_.host);
  request.set_enters_job(options_.enters_job);
  request.set_enters_job_term(options_.enters_job_term);
  request.set_pid(options_.pid);
  request.set_device(options_.device);
  request.set_threads(options_.threads);
  if (journal_.has_value()) {
    *request.mutable_journal() = *journal_;
  }
  if (options_.trouble) {
    request.set_trouble(options_.trouble());
  }
  return request;
}

ReplicaMembership::Outcome ReplicaMembership::Apply(const HeartbeatRequest& request,
                                                    const HeartbeatReply& reply) {
  if (reply.has_journal()) {
    journal_ = reply.journal();
  }
  if (request.incarnation() != incarnation_ || request.term() != term_) {
    return Outcome::kStale;
  }
  if (reply.heartbeat_ms() > 0) {
    heartbeat_ = absl::Milliseconds(reply.heartbeat_ms());
  }
  job_end_.reset();
  if (reply.job_ended() != JOB_STATE_UNSPECIFIED) {
    job_end_ = JobEnd{reply.job_ended(), reply.job_reason()};
  }
  replicas_ = reply.replicas();
  local_steps_ = reply.local_steps();
  if (reply.rejoin()) {
    Forget();
    return Outcome::kRejoin;
  }
  if (options_.guest != 0 && reply.incarnation() != 0) {
    options_.task = reply.task();
  }
  const bool joined = incarnation_ != reply.incarnation() || term_ != reply.term();
  incarnation_ = reply.incarnation();
  term_ = reply.term();
  if (reply.has_assignment()) {
    assignment_ = reply.assignment();
  } else {
    assignment_.reset();
  }
  return joined ? Outcome::kJoined : Outcome::kMember;
}

const Assignment* ReplicaMembership::assignment() const {
  const bool left =
      left_.has_value() && assignment_.has_value() && SameSession(*left_, assignment_->session());
  return assignment_.has_value() && !left ? &*assignment_ : nullptr;
}

bool ReplicaMembership::Assigned(const SessionKey& session) const {
  return assignment_.has_value() && SameSession(assignment_->session(), session);
}

void ReplicaMembership::Leave(std::optional<SessionKey> session, bool rejoin) {
  left_ = std::move(session);
  if (rejoin) {
    Forget();
  }
}

void ReplicaMembership::Forget() {
  incarnation_ = 0;
  term_ = 0;
  assignment_.reset();
}

}  // namespace monsoon
