#include "ps_server/shard/session_owners.h"

#include "absl/strings/str_cat.h"
#include "common/security/identity.h"

namespace monsoon {
namespace {

std::string NameOf(const SessionOwner& owner) {
  return owner.has_value() ? MemberName(owner->identity) : "nobody";
}

// What tells two members of one name apart.
std::string OtherThan(const MemberId& owner, const Peer& peer) {
  if (peer.identity != owner.identity) {
    return MemberName(peer.identity);
  }
  return absl::StrCat("a later ", MemberName(peer.identity),
                      ", which has joined anew with another key; its next heartbeat gets it a "
                      "session of its own");
}

}  // namespace

std::string SessionOwners::NameOf(SessionId session) const {
  return absl::StrCat("job ", job_, ": the session of worker/", session.worker, "#",
                      session.incarnation);
}

void SessionOwners::Set(SessionId session, SessionOwner owner) {
  MutexLock lock(&mutex_);
  owners_[session] = std::move(owner);
}

void SessionOwners::Forget(SessionId session) {
  MutexLock lock(&mutex_);
  owners_.erase(session);
}

absl::Status SessionOwners::CheckIs(SessionId session, const SessionOwner& owner) const {
  MutexLock lock(&mutex_);
  const auto found = owners_.find(session);
  if (found == owners_.end() || found->second == owner) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(NameOf(session), " is ", monsoon::NameOf(found->second),
                   "'s, and cannot become ", monsoon::NameOf(owner), "'s"));
}

std::optional<absl::Status> SessionOwners::Check(SessionId session, const Caller& caller) const {
  MutexLock lock(&mutex_);
  const auto found = owners_.find(session);
  if (found == owners_.end()) {
    return std::nullopt;
  }
  const SessionOwner& owner = found->second;
  if (!owner.has_value() || (caller.member.has_value() && IsMember(*owner, *caller.member))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      NameOf(session), " is ", MemberName(owner->identity), "'s, and this frame comes from ",
      caller.member.has_value() ? OtherThan(*owner, *caller.member) : caller.address));
}

}  // namespace monsoon
