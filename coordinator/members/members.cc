#include "coordinator/members/members.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/peer_text.h"
#include "common/base/status.h"
#include "common/security/access.h"
#include "common/security/join_token.h"
#include "common/security/member_id.h"
#include "coordinator/job/replica_set.h"
#include "coordinator/members/member_text.h"

namespace monsoon {
namespace {

// A name that is a task's number.
std::optional<uint32_t> TaskOf(const std::string& name) {
  uint32_t task = 0;
  return absl::SimpleAtoi(name, &task) ? std::optional(task) : std::nullopt;
}

absl::Time TimeOf(Moment moment) { return absl::FromUnixMillis(moment.unix_ms); }

// "0", or "0 to 3": of `count` tasks.
std::string Numbers(int count) { return count == 1 ? "0" : absl::StrCat("0 to ", count - 1); }

bool HasKey(const MemberRecord& member, const std::string& key) {
  return member.key() == key || std::ranges::any_of(member.earlier(), [&](const MemberKey& had) {
           return had.fingerprint() == key;
         });
}

// What a caller is known by; nothing where it does not say who it is.
const Peer* WorkerOf(const Caller& caller) {
  const bool is_worker =
      !caller.open && caller.member.has_value() && caller.member->identity.role == Role::kWorker;
  return is_worker ? &*caller.member : nullptr;
}

}  // namespace

Members::Members(Registry* registry, const JournalGuard* guard, Replicas* replicas, absl::Time now)
    : registry_(registry), guard_(*guard), replicas_(*replicas) {
  TakeRevocations(now);
  TakeOpening();
}

absl::Status Members::UseAuthority(CertificateAuthority authority) {
  if (authority.facts().cluster != registry_->cluster.name()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the authority is of cluster ", authority.facts().cluster,
                     ", the coordinator of ", registry_->cluster.name()));
  }
  authority_ = std::move(authority);
  return absl::OkStatus();
}

absl::Status Members::CheckCanSign() const {
  RETURN_IF_ERROR(guard_.Check());
  if (!authority_.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the coordinator of cluster ", registry_->cluster.name(),
        " has no authority and can let nobody join: call `cluster init` on its machine, as its "
        "user, and start it again without --insecure"));
  }
  return absl::OkStatus();
}

absl::Status Members::CheckMemberName(const Identity& identity) const {
  const Cluster& cluster = registry_->cluster;
  const bool ps = identity.role == Role::kPs;
  if (!ps && identity.role != Role::kWorker) {
    return absl::OkStatus();
  }
  const int tasks = ps ? cluster.ps_size() : cluster.worker_size();
  const std::optional<uint32_t> task = TaskOf(identity.name);
  if (task.has_value() ? *task < static_cast<uint32_t>(tasks) : !ps) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      MemberName(identity), " is not in the cluster file, whose ", RoleName(identity.role),
      " tasks are ", tasks == 0 ? "none" : Numbers(tasks), "; --task=N says which one it is",
      ps ? "" : ", --name=NAME joins as a worker that is not listed"));
}

absl::StatusOr<Members::Signed> Members::Sign(const std::string& request,
                                              const SigningRequest& asked, const Identity& identity,
                                              absl::Time now) const {
  Signed result;
  ASSIGN_OR_RETURN(const std::string certificate,
                   authority_->Sign(request, {identity, asked.hosts}, now));
  ASSIGN_OR_RETURN(const Peer peer, ReadPeer(certificate));
  result.certificate.set_certificate(certificate);
  result.certificate.set_authority(authority_->certificate());
  result.holder = {peer.identity, peer.key_fingerprint, peer.hosts, peer.validity.end};
  return result;
}

absl::StatusOr<JoinReply> Members::Join(const JoinRequest& request, const Caller& caller,
                                        Moment moment) {
  RETURN_IF_ERROR(CheckCanSign());
  const std::string host = HostOfPeer(caller.address);
  RETURN_IF_ERROR(tries_.Check(host, moment.now));
  SigningRequest asked;
  if (!request.signing_request().empty()) {
    absl::StatusOr<SigningRequest> read = ReadSigningRequest(request.signing_request());
    if (!read.ok()) {
      tries_.Note(host, moment.now);
      return read.status();
    }
    asked = *std::move(read);
  }
  const absl::Time now = TimeOf(moment);
  // A refusal repeats it.
  const std::string id = PeerText(request.token(), kMostPeerName);
  const absl::StatusOr<Redemption> redemption =
      tokens().Redeem(id, request.secret(), asked.key_fingerprint, now);
  if (!redemption.ok()) {
    if (absl::IsUnauthenticated(redemption.status())) {
      tries_.Note(host, moment.now);
    }
    return redemption.status();
  }
  JoinReply reply;
  reply.set_role(std::string(RoleName(redemption->role)));
  reply.set_job(redemption->job);
  if (request.signing_request().empty()) {
    return reply;
  }
  // The name is asked for; all else is the token's.
  const Identity identity = {redemption->role, asked.identity.name, authority_->facts().cluster,
                             redemption->job};
  RETURN_IF_ERROR(CheckMemberName(identity));
  ASSIGN_OR_RETURN(Signed result, Sign(request.signing_request(), asked, identity, now));
  ASSIGN_OR_RETURN(const MemberUpdate admitted, members().Admit(result.holder, id, now));
  if (redemption->update.has_value()) {
    Apply(*redemption->update);
  }
  Apply(admitted);
  registry_->Log(absl::StrCat(MemberName(identity), " has joined from ", host, " with token ", id,
                              asked.hosts.empty() ? "" : "; it is at ",
                              absl::StrJoin(asked.hosts, ", ")));
  *reply.mutable_granted() = std::move(result.certificate);
  return reply;
}

absl::StatusOr<MemberCertificate> Members::Renew(const RenewRequest& request, const Caller& caller,
                                                 Moment moment) {
  RETURN_IF_ERROR(CheckCanSign());
  if (!caller.member.has_value()) {
    return absl::UnauthenticatedError(
        "whose certificate is to be renewed? the connection shows none; join with a token");
  }
  ASSIGN_OR_RETURN(const SigningRequest asked, ReadSigningRequest(request.signing_request()));
  ASSIGN_OR_RETURN(Signed result,
                   Sign(request.signing_request(), asked, caller.member->identity, TimeOf(moment)));
  ASSIGN_OR_RETURN(const MemberUpdate renewed,
                   members().Renew(caller.member->key_fingerprint, result.holder, TimeOf(moment)));
  Apply(renewed);
  return std::move(result.certificate);
}

// ---- tokens ------------------------------------------------------------------

absl::StatusOr<CreateTokenReply> Members::CreateToken(const CreateTokenRequest& request,
                                                      const Caller& caller, Moment moment) {
  RETURN_IF_ERROR(CheckCanSign());
  TokenTerms terms;
  terms.by = QuotaName(caller);
  ASSIGN_OR_RETURN(terms.role, ParseRole(request.role()));
  terms.lifetime = absl::Milliseconds(request.ttl_ms());
  terms.uses = request.uses();
  terms.job = request.job();
  terms.note = request.note();
  const JoinToken token = DrawToken(authority_->facts());
  ASSIGN_OR_RETURN(const JoinTokenUpdate created, tokens().Create(terms, token, TimeOf(moment)));
  Apply(created);
  CreateTokenReply reply;
  reply.set_token(ToText(token));
  *reply.mutable_status() = StatusOfToken(created.created(), TimeOf(moment));
  return reply;
}

ListTokensReply Members::ListTokens(Moment moment) const {
  ListTokensReply reply;
  for (const JoinTokenRecord& token : snapshot().tokens().token()) {
    *reply.add_token() = StatusOfToken(token, TimeOf(moment));
  }
  return reply;
}

absl::StatusOr<TokenStatus> Members::RevokeToken(const std::string& id, Moment moment) {
  RETURN_IF_ERROR(guard_.Check());
  ASSIGN_OR_RETURN(const JoinTokenUpdate revoked,
                   tokens().Revoke(PeerText(id, kMostPeerName), TimeOf(moment)));
  Apply(revoked);
  for (const JoinTokenRecord& token : snapshot().tokens().token()) {
    if (token.id() == id) {
      return StatusOfToken(token, TimeOf(moment));
    }
  }
  return absl::InternalError(absl::StrCat("token ", id, " is gone"));
}

// ---- members -----------------------------------------------------------------

ListMembersReply Members::ListMembers(Moment moment) const {
  ListMembersReply reply;
  for (const MemberRecord& member : snapshot().members().member()) {
    MemberStatus* const status = reply.add_member();
    *status = StatusOfMember(member, TimeOf(moment));
    for (const uint32_t worker : WorkersOf(member)) {
      status->add_task(WorkerName(worker));
    }
  }
  return reply;
}

absl::StatusOr<RevokeMemberReply> Members::RevokeMember(const std::string& member, Moment moment) {
  RETURN_IF_ERROR(guard_.Check());
  ASSIGN_OR_RETURN(const MemberUpdate revoked,
                   members().Revoke(PeerText(member, kMostPeerName), TimeOf(moment)));
  Apply(revoked);
  TakeRevocations(TimeOf(moment));
  wants_poll_ = true;
  RevokeMemberReply reply;
  for (const MemberRecord& record : snapshot().members().member()) {
    if (record.key() != revoked.revoked().key()) {
      continue;
    }
    *reply.mutable_member() = StatusOfMember(record, TimeOf(moment));
    for (const uint32_t worker : WorkersOf(record)) {
      replicas_.CloseSession(worker, "worker_revoked", absl::StrCat(member, " was revoked"),
                             moment.now);
      registry_->membership.Expel(worker);
      reply.add_ended_task(WorkerName(worker));
    }
  }
  registry_->Log(absl::StrCat(member, " is revoked",
                              reply.ended_task().empty() ? "" : ", and with it ",
                              absl::StrJoin(reply.ended_task(), ", ")));
  return reply;
}

std::vector<uint32_t> Members::WorkersOf(const MemberRecord& member) const {
  std::vector<uint32_t> workers;
  const absl::StatusOr<Identity> identity = ParseIdentity(member.identity());
  if (!identity.ok() || identity->role != Role::kWorker) {
    return workers;
  }
  const Membership& membership = registry_->membership;
  for (uint32_t worker = 0; worker < membership.size(); ++worker) {
    // Of who came by a Unix socket nobody knows whose it is; a task's number is its name.
    const MemberIdentity joined = membership.MemberOf(worker);
    const bool is_it = joined.identity().empty() ? identity->name == absl::StrCat(worker)
                                                 : HasKey(member, joined.key());
    if (is_it && membership.up(worker)) {
      workers.push_back(worker);
    }
  }
  return workers;
}

void Members::Apply(const JoinTokenUpdate& update) {
  StateUpdate change;
  *change.mutable_token_changed() = update;
  registry_->writer.Apply(change);
  TakeOpening();
}

void Members::TakeOpening() { open_until_ms_ = absl::ToUnixMillis(tokens().OpenUntil()); }

void Members::Apply(const MemberUpdate& update) {
  StateUpdate change;
  *change.mutable_member_changed() = update;
  registry_->writer.Apply(change);
}

void Members::TakeRevocations(absl::Time now) {
  revocations_ = members().Revoked();
  revoked_keys_.Add(revocations_, now);
}

// ---- who calls ---------------------------------------------------------------

absl::Status Members::CheckWorker(const HeartbeatRequest& request, const Caller& caller) const {
  const Peer* const peer = WorkerOf(caller);
  if (peer == nullptr) {
    return absl::OkStatus();
  }
  const Identity& identity = peer->identity;
  const bool guest = request.guest() != 0;
  if (!guest && identity.name != absl::StrCat(request.task())) {
    return absl::PermissionDeniedError(absl::StrCat(
        "whoever calls as ", WorkerName(request.task()), " has the certificate of ",
        MemberName(identity), "; start it as that, or join with --task=", request.task()));
  }
  return CheckJob(caller, request.enters_job());
}

absl::Status Members::CheckEnter(const std::string& job, const Caller& caller) const {
  return CheckJob(caller, job);
}

absl::Status Members::CheckSession(uint32_t worker, const Caller& caller) const {
  const Peer* const peer = WorkerOf(caller);
  const MemberIdentity joined = registry_->membership.MemberOf(worker);
  if (peer == nullptr || joined.identity().empty() ||
      (joined.identity() == ToUri(peer->identity) && joined.key() == peer->key_fingerprint)) {
    return absl::OkStatus();
  }
  const bool same_name = joined.identity() == ToUri(peer->identity);
  return absl::PermissionDeniedError(absl::StrCat(
      MemberName(peer->identity), " speaks for ", WorkerName(worker), ", which has joined as ",
      MemberName(joined), same_name ? " with another key" : ", another member"));
}

}  // namespace monsoon
