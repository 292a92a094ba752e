// Members: who may join the cluster and with which token, who has, and who was thrown out: what
// proto/member.proto asks. What it decides is durable state (TokenBook, MemberBook); its answers
// may go out only once that is on the disk, as all of the coordinator's.
//
// Only a coordinator that has the cluster's authority signs anything. To revoke a member is to end
// its workers as if they were lost, at once: their sessions are closed on every shard before their
// blocks go to others.
//
// Draws tokens and signs certificates, which is random; what becomes durable of it is in its
// updates. No threads, clocks or gRPC. Not thread safe, but for what says that it is.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/security/caller.h"
#include "common/security/certificate_authority.h"
#include "common/security/member_book.h"
#include "common/security/revocations.h"
#include "common/security/signing_request.h"
#include "common/security/token_book.h"
#include "common/security/wrong_tries.h"
#include "coordinator/job/registry.h"
#include "coordinator/replicas/replicas.h"
#include "coordinator/slices/journal_guard.h"
#include "proto/coordinator.pb.h"
#include "proto/member.pb.h"

namespace monsoon {

class Members {
 public:
  // What is given outlives this. `now`: of the clock by which certificates end.
  Members(Registry* registry, const JournalGuard* guard, Replicas* replicas, absl::Time now);

  // With which it signs from now on. FailedPrecondition where that is another cluster's.
  absl::Status UseAuthority(CertificateAuthority authority);

  // ---- as proto/member.proto has them ----
  absl::StatusOr<JoinReply> Join(const JoinRequest& request, const Caller& caller, Moment moment);
  absl::StatusOr<MemberCertificate> Renew(const RenewRequest& request, const Caller& caller,
                                          Moment moment);
  absl::StatusOr<CreateTokenReply> CreateToken(const CreateTokenRequest& request,
                                               const Caller& caller, Moment moment);
  ListTokensReply ListTokens(Moment moment) const;
  absl::StatusOr<TokenStatus> RevokeToken(const std::string& id, Moment moment);
  ListMembersReply ListMembers(Moment moment) const;
  absl::StatusOr<RevokeMemberReply> RevokeMember(const std::string& member, Moment moment);

  // ---- who calls ----
  // Keys whose holders are to be served no more. Thread safe; lives as long as this.
  const RevokedKeys* revoked_keys() const { return &revoked_keys_; }
  // Whether somebody without a certificate is to be listened to, at this time of the clock by which
  // tokens end. Thread safe; as long as this.
  bool TakesJoiners(absl::Time now) const { return absl::ToUnixMillis(now) < open_until_ms_; }
  // What shards are to know, as the durable state has it now.
  const Revocations& revocations() const { return revocations_; }
  // Shards are to hear of it before the next heartbeat.
  bool wants_poll() const { return wants_poll_; }
  void NotePoll() { wants_poll_ = false; }

  // PermissionDenied where the caller's certificate is another worker's than the one that the
  // request is of, or for another job: worker/7 is nobody but task 7, and a guest is no task.
  absl::Status CheckWorker(const HeartbeatRequest& request, const Caller& caller) const;
  // The same of who asks to enter the job that it calls so: a member that is there for one job asks
  // for that by its id.
  absl::Status CheckEnter(const std::string& job, const Caller& caller) const;
  // PermissionDenied where the worker has joined as another member.
  absl::Status CheckSession(uint32_t worker, const Caller& caller) const;

 private:
  const CoordinatorSnapshot& snapshot() const { return registry_->writer.state().snapshot(); }
  TokenBook tokens() const { return TokenBook(&snapshot().tokens()); }
  MemberBook members() const { return MemberBook(&snapshot().members()); }
  // It is in force, and has the authority.
  absl::Status CheckCanSign() const;
  // That the name is one that the role can have in this cluster.
  absl::Status CheckMemberName(const Identity& identity) const;
  // The request and what the token makes of it: a certificate, and who holds it.
  struct Signed {
    MemberCertificate certificate;
    Holder holder;
  };
  absl::StatusOr<Signed> Sign(const std::string& request, const SigningRequest& asked,
                              const Identity& identity, absl::Time now) const;
  // The workers that the member is now.
  std::vector<uint32_t> WorkersOf(const MemberRecord& member) const;
  void Apply(const JoinTokenUpdate& update);
  void Apply(const MemberUpdate& update);
  void TakeRevocations(absl::Time now);
  void TakeOpening();

  Registry* const registry_;
  const JournalGuard& guard_;
  Replicas& replicas_;
  std::optional<CertificateAuthority> authority_;
  WrongTries tries_;
  RevokedKeys revoked_keys_;
  std::atomic<int64_t> open_until_ms_{0};  // TokenBook::OpenUntil
  Revocations revocations_;
  bool wants_poll_ = false;
};

}  // namespace monsoon
