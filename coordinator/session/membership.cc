#include "coordinator/session/membership.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/peer_text.h"
#include "common/base/status.h"
#include "common/transport/frame/protocol.h"

namespace monsoon {
namespace {

constexpr size_t kMostTroubleBytes = 256;
// No task joins so often: whoever says that it holds a higher incarnation is not believed.
constexpr uint64_t kMostIncarnations = uint64_t{1} << 53;

void Note(const HeartbeatRequest& request, absl::Duration now, int64_t unix_ms, Member* member) {
  member->pid = request.pid();
  member->process = request.process();
  member->device = PeerText(request.device(), kMostPeerName);
  member->host = PeerText(request.host(), kMostPeerName);
  member->said = PeerText(request.trouble(), kMostTroubleBytes);
  member->threads = request.threads();
  member->last_seen = now;
  member->last_seen_ms = unix_ms;
}

// Pids alone do not tell: in containers many processes have the same one. A number that one of
// them did not draw tells nothing.
bool IsAnother(const HeartbeatRequest& request, const Member& member) {
  const bool drawn = member.process != 0 && request.process() != 0;
  return member.pid != request.pid() || (drawn && member.process != request.process());
}

// Who proves nothing is not told from others.
bool AreTwo(const MemberIdentity& one, const MemberIdentity& other) {
  return !one.identity().empty() && !other.identity().empty() &&
         (one.identity() != other.identity() || one.key() != other.key());
}

// "pid 7 on attic".
std::string NameOf(uint32_t pid, const std::string& host) {
  return absl::StrCat("pid ", pid, host.empty() ? "" : " on ", host);
}

}  // namespace

absl::Status Membership::CheckSender(const HeartbeatRequest& request) const {
  const bool guest = request.guest() != 0;
  const std::string who =
      absl::StrCat(guest ? "a worker without a task" : absl::StrCat("worker/", request.task()),
                   " (pid ", request.pid(), ")");
  if (request.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        who, " speaks protocol version ", request.protocol_version(), ", the coordinator ",
        kProtocolVersion, ": update ",
        request.protocol_version() < kProtocolVersion ? "the worker" : "the coordinator",
        ", and start both from the same build"));
  }
  if (request.cluster() != options_.cluster) {
    return absl::FailedPreconditionError(
        absl::StrCat(who, " belongs to cluster \"", request.cluster(), "\", the coordinator to \"",
                     options_.cluster, "\""));
  }
  if (!guest && !request.enters_job().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, " cannot enter a job: only a process without a task can"));
  }
  if (guest && !options_.open && request.enters_job().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(who,
                     " is refused: the coordinator's cluster file does not have `open: "
                     "true`; --task=N says which listed worker it is"));
  }
  if (!guest && !listed(request.task())) {
    return NotThere(request.task());
  }
  return absl::OkStatus();
}

absl::Status Membership::NotThere(uint32_t worker) const {
  return absl::NotFoundError(absl::StrCat(
      "worker/", worker, " is not in the cluster file, which has ", options_.workers, " workers"));
}

std::optional<uint32_t> Membership::FindGuest(uint64_t guest) const {
  for (const WorkerIncarnation& known : writer_->state().snapshot().worker()) {
    if (known.guest() == guest && !listed(known.worker())) {
      return known.worker();
    }
  }
  return std::nullopt;
}

absl::StatusOr<uint32_t> Membership::NumberForGuest(const std::string& enters_job) const {
  uint32_t number = options_.workers;
  while (up(number) || (options_.shunned && options_.shunned(number, enters_job))) {
    ++number;
  }
  if (number >= options_.most_workers) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the cluster has its ", options_.most_workers, " workers"));
  }
  return number;
}

void Membership::NoteHeld(const HeartbeatRequest& request) {
  const uint32_t worker = request.task();
  const uint64_t incarnation = request.incarnation();
  const bool its_own = request.guest() == 0 || (!listed(worker) && worker < options_.most_workers);
  if (its_own && incarnation > writer_->state().incarnation(worker) &&
      incarnation < kMostIncarnations) {
    held_[worker] = std::max(held_[worker], incarnation);
  }
}

uint64_t Membership::NextIncarnation(uint32_t worker) {
  const auto held = held_.extract(worker);
  return std::max(writer_->state().incarnation(worker), held.empty() ? 0 : held.mapped()) + 1;
}

Member& Membership::At(uint32_t worker) {
  if (worker >= members_.size()) {
    members_.resize(worker + 1);
  }
  return members_[worker];
}

absl::StatusOr<Membership::Heard> Membership::Heartbeat(const HeartbeatRequest& request,
                                                        absl::Duration now, int64_t unix_ms,
                                                        const MemberIdentity& sender) {
  RETURN_IF_ERROR(CheckSender(request));
  NoteHeld(request);
  uint32_t worker = request.task();
  if (request.guest() != 0) {
    const std::optional<uint32_t> known = FindGuest(request.guest());
    if (!known && (request.incarnation() != 0 || request.leaving())) {
      return Heard{Outcome::kMustRejoin};  // Its number is another guest's by now.
    }
    if (known) {
      worker = *known;
    } else {
      ASSIGN_OR_RETURN(worker, NumberForGuest(request.enters_job()));
    }
  }
  ASSIGN_OR_RETURN(const Outcome outcome, Hear(worker, request, now, unix_ms, sender));
  return Heard{outcome, worker};
}

absl::StatusOr<Membership::Outcome> Membership::Hear(uint32_t worker,
                                                     const HeartbeatRequest& request,
                                                     absl::Duration now, int64_t unix_ms,
                                                     const MemberIdentity& sender) {
  Member& member = At(worker);
  const uint64_t incarnation = writer_->state().incarnation(worker);
  // One that goes on to another job joins again.
  const bool same_job = request.enters_job().empty()
                            ? Entered(worker) == nullptr
                            : HasEntered(worker, request.enters_job(), request.enters_job_term());
  const MemberIdentity its_own = MemberOf(worker);
  const bool other_name = AreTwo(sender, its_own) && sender.identity() != its_own.identity();
  const bool is_another = other_name || (member.pid != 0 && IsAnother(request, member));
  const bool same = !AreTwo(sender, its_own) && request.incarnation() != 0 &&
                    request.incarnation() == incarnation &&
                    request.term() == writer_->state().incarnation_term(worker) && same_job;
  if (same && !is_another && member.state == Member::State::kUp) {
    Note(request, now, unix_ms, &member);
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
  if (member.state == Member::State::kUp && is_another) {
    return absl::AlreadyExistsError(absl::StrFormat(
        "worker/%d is running already as %s, last heard %.1f s ago; %s is refused: each worker "
        "needs a --task of its own",
        worker, NameOf(member.pid, member.host), absl::ToDoubleSeconds(now - member.last_seen),
        NameOf(request.pid(), PeerText(request.host(), kMostPeerName))));
  }
  const bool first = member.state == Member::State::kNeverSeen;
  member.state = Member::State::kUp;
  StateUpdate update;
  WorkerIncarnation* const joined = update.mutable_worker_joined();
  joined->set_worker(worker);
  joined->set_incarnation(NextIncarnation(worker));
  joined->set_term(writer_->state().snapshot().term());
  joined->set_guest(request.guest());
  joined->set_enters_job(request.enters_job());
  joined->set_enters_job_term(request.enters_job_term());
  *joined->mutable_member() = sender;
  writer_->Apply(update);
  Note(request, now, unix_ms, &member);
  return first ? Outcome::kJoined : Outcome::kRejoined;
}

absl::Status Membership::Drain(uint32_t worker) {
  if (worker >= members_.size()) {
    return NotThere(worker);
  }
  if (!up(worker)) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker/", worker, " is not there: there is nothing to drain"));
  }
  if (!draining(worker)) {
    StateUpdate update;
    update.mutable_worker_drained()->set_worker(worker);
    writer_->Apply(update);
  }
  return absl::OkStatus();
}

const WorkerIncarnation* Membership::Entered(uint32_t worker) const {
  const WorkerIncarnation* const known = writer_->state().FindIncarnation(worker);
  return known == nullptr || known->enters_job().empty() ? nullptr : known;
}

bool Membership::HasEntered(uint32_t worker, const std::string& job, uint64_t job_term) const {
  const WorkerIncarnation* const entered = Entered(worker);
  return entered != nullptr && entered->enters_job() == job &&
         entered->enters_job_term() == job_term;
}

MemberIdentity Membership::MemberOf(uint32_t worker) const {
  const WorkerIncarnation* const known = writer_->state().FindIncarnation(worker);
  return known == nullptr ? MemberIdentity() : known->member();
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

void Membership::ForgiveSilence(absl::Duration now) {
  for (Member& member : members_) {
    if (member.state == Member::State::kUp) {
      member.last_seen = now;
    }
  }
}

bool Membership::Expect(uint32_t worker, absl::Duration now) {
  const bool guest =
      writer_->state().guest(worker) != 0 && (options_.open || Entered(worker) != nullptr);
  if (!listed(worker) && !guest) {
    return false;
  }
  Member& member = At(worker);
  member.state = Member::State::kUp;
  member.last_seen = now;
  return true;
}

void Membership::Expel(uint32_t worker) {
  if (up(worker)) {
    members_[worker].state = Member::State::kLost;
  }
}

}  // namespace monsoon
