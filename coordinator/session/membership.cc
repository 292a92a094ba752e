#include "coordinator/session/membership.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/transport/frame/protocol.h"

namespace monsoon {

absl::StatusOr<Membership::Outcome> Membership::Heartbeat(const HeartbeatRequest& request,
                                                          absl::Duration now, int64_t unix_ms) {
  const std::string who = absl::StrCat("worker/", request.task());
  if (request.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        who, " (pid ", request.pid(), ") speaks protocol version ", request.protocol_version(),
        ", the coordinator ", kProtocolVersion, ": start both from the same build"));
  }
  if (request.cluster() != options_.cluster) {
    return absl::FailedPreconditionError(
        absl::StrCat(who, " (pid ", request.pid(), ") belongs to cluster \"", request.cluster(),
                     "\", the coordinator to \"", options_.cluster, "\""));
  }
  if (request.task() >= members_.size()) {
    return absl::NotFoundError(
        absl::StrCat(who, " is not in the cluster file, which has ", members_.size(), " workers"));
  }
  Member& member = members_[request.task()];
  const uint64_t incarnation = writer_->state().incarnation(request.task());
  const bool same = request.incarnation() != 0 && request.incarnation() == incarnation &&
                    request.term() == writer_->state().incarnation_term(request.task());
  if (same && member.state == Member::State::kUp) {
    member.pid = request.pid();
    member.device = request.device();
    member.threads = request.threads();
    member.last_seen = now;
    member.last_seen_ms = unix_ms;
    if (request.leaving()) {
      member.state = Member::State::kLeft;
      return Outcome::kLeft;
    }
    return Outcome::kRefreshed;
  }
  if (request.leaving()) {
    return Outcome::kMustRejoin;  // Lost already: nothing is left to close.
  }
  if (request.incarnation() != 0) {
    return Outcome::kMustRejoin;
  }
  if (member.state == Member::State::kUp && member.pid != 0 && member.pid != request.pid()) {
    return absl::AlreadyExistsError(absl::StrFormat(
        "%s is running already as pid %d, last heard %.1f s ago; pid %d is refused", who,
        member.pid, absl::ToDoubleSeconds(now - member.last_seen), request.pid()));
  }
  const bool first = member.state == Member::State::kNeverSeen;
  member.state = Member::State::kUp;
  StateUpdate update;
  update.mutable_worker_joined()->set_worker(request.task());
  update.mutable_worker_joined()->set_incarnation(incarnation + 1);
  update.mutable_worker_joined()->set_term(writer_->state().snapshot().term());
  writer_->Apply(update);
  member.pid = request.pid();
  member.device = request.device();
  member.threads = request.threads();
  member.last_seen = now;
  member.last_seen_ms = unix_ms;
  return first ? Outcome::kJoined : Outcome::kRejoined;
}

absl::Status Membership::Drain(uint32_t worker) {
  const std::string who = absl::StrCat("worker/", worker);
  if (worker >= members_.size()) {
    return absl::NotFoundError(
        absl::StrCat(who, " is not in the cluster file, which has ", members_.size(), " workers"));
  }
  if (!up(worker)) {
    return absl::FailedPreconditionError(
        absl::StrCat(who, " is not there: there is nothing to drain"));
  }
  if (!draining(worker)) {
    StateUpdate update;
    update.mutable_worker_drained()->set_worker(worker);
    writer_->Apply(update);
  }
  return absl::OkStatus();
}

Member Membership::member(uint32_t worker) const {
  Member member = worker < members_.size() ? members_[worker] : Member();
  member.incarnation = writer_->state().incarnation(worker);
  return member;
}

std::vector<uint32_t> Membership::Tick(absl::Duration now) {
  std::vector<uint32_t> lost;
  for (uint32_t worker = 0; worker < members_.size(); ++worker) {
    Member& member = members_[worker];
    if (member.state == Member::State::kUp && now - member.last_seen > options_.lost_after) {
      member.state = Member::State::kLost;
      lost.push_back(worker);
    }
  }
  return lost;
}

void Membership::Expect(uint32_t worker, absl::Duration now) {
  members_[worker].state = Member::State::kUp;
  members_[worker].last_seen = now;
}

void Membership::Expel(uint32_t worker) {
  if (members_[worker].state == Member::State::kUp) {
    members_[worker].state = Member::State::kLost;
  }
}

}  // namespace monsoon
