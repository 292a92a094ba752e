#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/random_bytes.h"
#include "common/base/status.h"
#include "common/security/certificate.h"
#include "common/security/credential_store.h"
#include "common/security/host_names.h"
#include "common/security/identity.h"
#include "common/security/join_token.h"
#include "common/security/peer_verifier.h"
#include "common/security/signing_request.h"
#include "coordinator/cli/member_commands.h"

namespace monsoon {
namespace {

constexpr absl::string_view kBegin = "-----BEGIN CERTIFICATE-----";
constexpr absl::string_view kEnd = "-----END CERTIFICATE-----\n";
// An answer that was lost is asked for again, with the same key, so that the token has one use
// less and not two.
constexpr int kTries = 3;
// Bytes of what tells two guests of one host apart.
constexpr size_t kGuestBytes = 2;

struct JoinFlags {
  std::string task;  // "": not given
  std::string name;
  bool replace = false;
  bool program = false;
};

// What is known once the token is read and the server has shown its certificates.
struct Door {
  Invitation invitation;
  Authority authority;
  std::string certificate;  // the authority's, PEM
};

// The authority's certificate among those that the server shows.
absl::StatusOr<std::string> AuthorityIn(absl::string_view chain, const std::string& address) {
  for (size_t at = chain.find(kBegin); at != absl::string_view::npos;
       at = chain.find(kBegin, at + 1)) {
    const size_t end = chain.find(kEnd, at);
    if (end == absl::string_view::npos) {
      break;
    }
    std::string certificate(chain.substr(at, end + kEnd.size() - at));
    if (ReadAuthority(certificate).ok()) {
      return certificate;
    }
  }
  return absl::UnauthenticatedError(
      absl::StrCat("whoever serves ", address,
                   " shows no certificate of a cluster's authority: it is no coordinator, or one "
                   "that runs with --insecure; ask whoever gave you the token for the address"));
}

absl::StatusOr<Door> FindDoor(const Invocation& call) {
  Door door;
  ASSIGN_OR_RETURN(door.invitation, ParseInvitation(call.positional()[0]));
  const std::string& address = door.invitation.address;
  ASSIGN_OR_RETURN(const std::string chain, call.env().join_client->FetchAuthority(address));
  ASSIGN_OR_RETURN(door.certificate, AuthorityIn(chain, address));
  ASSIGN_OR_RETURN(door.authority, ReadAuthority(door.certificate));
  RETURN_IF_ERROR(CheckAuthority(door.invitation.token, door.authority));
  return door;
}

// Who this user is here in that role, if it still holds; `name` "": by any name.
absl::StatusOr<std::optional<KeptMember>> FindHeld(const CredentialStore& store,
                                                   const std::string& cluster, Role role,
                                                   const std::string& name, absl::Time now) {
  ASSIGN_OR_RETURN(const std::vector<KeptMember> kept, store.Members(cluster, role));
  for (const KeptMember& member : kept) {
    if ((name.empty() || member.peer.identity.name == name) && now <= member.peer.validity.end) {
      return member;
    }
  }
  return std::nullopt;
}

// That whoever asks is not here already, before the token has a use less.
absl::Status CheckNew(const CredentialStore& store, const Identity& identity, OtherAuthority other,
                      absl::Time now) {
  ASSIGN_OR_RETURN(const std::optional<KeptMember> held,
                   FindHeld(store, identity.cluster, identity.role, identity.name, now));
  if (!held.has_value() || other == OtherAuthority::kSetAside) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(
      absl::StrCat("this user is ", MemberName(identity), " of cluster ", identity.cluster,
                   " here already, until ", TimeText(absl::ToUnixMillis(held->peer.validity.end)),
                   " (", held->path, "); --replace makes another key for it"));
}

// Of a worker that is not listed: its host, and something that no other has.
std::string GuestName(const Environment& env) {
  const std::string end = absl::StrCat("-", absl::BytesToHexString(RandomBytes(kGuestBytes)));
  std::string host = env.host.substr(0, env.host.find('.'));
  host = host.substr(0, kMostNameBytes - end.size());
  const std::string name = absl::StrCat(host, end);
  return CheckIdentity({Role::kWorker, name, "any", ""}).ok() ? name : absl::StrCat("guest", end);
}

// As what the token's holder asks to be let in.
absl::StatusOr<Identity> WhoAsks(const Environment& env, const JoinFlags& flags,
                                 const JoinReply& terms, const std::string& cluster) {
  Identity identity;
  ASSIGN_OR_RETURN(identity.role, ParseRole(terms.role()));
  identity.cluster = cluster;
  identity.job = terms.job();
  const bool has_tasks = identity.role == Role::kWorker || identity.role == Role::kPs;
  if (!flags.task.empty() && (!has_tasks || !flags.name.empty())) {
    return absl::InvalidArgumentError(
        has_tasks ? "--task says who it is, or --name; not both"
                  : absl::StrCat("the token is for a ", terms.role(),
                                 ", which is no task: --name says who it is"));
  }
  if (identity.role == Role::kPs && flags.task.empty()) {
    return absl::InvalidArgumentError(
        "the token is for a parameter server: --task=N says which of the cluster file it is");
  }
  uint32_t task = 0;
  if (!flags.task.empty()) {
    if (!absl::SimpleAtoi(flags.task, &task)) {
      return absl::InvalidArgumentError("--task is the number of a task of the cluster file");
    }
    identity.name = absl::StrCat(task);
  } else if (!flags.name.empty()) {
    identity.name = flags.name;
  } else {
    identity.name = has_tasks ? GuestName(env) : PersonsName(env);
  }
  RETURN_IF_ERROR(CheckIdentity(identity));
  return identity;
}

// That the coordinator has given what was asked for, and that it holds here and now.
absl::Status CheckGranted(const Door& door, const Identity& identity, const Credential& member,
                          absl::Time now) {
  RETURN_IF_ERROR(CheckPair(member.key, member.certificate));
  ASSIGN_OR_RETURN(const PeerVerifier verifier, PeerVerifier::Create(door.certificate));
  ASSIGN_OR_RETURN(const Peer peer, verifier.Verify(member.certificate, now));
  if (peer.identity != identity) {
    return absl::InternalError(
        absl::StrCat("asked to be ", ToUri(identity), " and became ", ToUri(peer.identity)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Credential> Ask(JoinClient* client, const Door& door, const Identity& identity,
                               const Environment& env, JoinRequest request) {
  const PrivateKey key = PrivateKey::Generate();
  std::vector<std::string> hosts = {env.host};
  if (!CheckHostNames(hosts).ok()) {
    hosts.clear();
  }
  ASSIGN_OR_RETURN(const std::string signing, MakeSigningRequest(key, identity, hosts));
  request.set_signing_request(signing);
  absl::StatusOr<JoinReply> reply;
  for (int i = 0; i < kTries; ++i) {
    reply = client->Join(door.invitation.address, door.certificate, request);
    if (!absl::IsUnavailable(reply.status()) && !absl::IsDeadlineExceeded(reply.status())) {
      break;
    }
  }
  RETURN_IF_ERROR(reply.status());
  Credential member = {key, reply->granted().certificate(), door.certificate};
  RETURN_IF_ERROR(CheckGranted(door, identity, member, env.clock->WallTime()));
  return member;
}

absl::Status Join(const Invocation& call, const JoinFlags& flags) {
  const Environment& env = call.env();
  const OtherAuthority other = flags.replace ? OtherAuthority::kSetAside : OtherAuthority::kRefuse;
  ASSIGN_OR_RETURN(const CredentialStore store, CredentialStore::Find(env.variable));
  ASSIGN_OR_RETURN(const Door door, FindDoor(call));
  RETURN_IF_ERROR(store.CheckFree(door.authority, other));
  if (flags.program) {
    // A program that is started again does not use its token up, which may have ended since.
    ASSIGN_OR_RETURN(
        const std::optional<KeptMember> worker,
        FindHeld(store, door.authority.cluster, Role::kWorker, /*name=*/"", env.clock->WallTime()));
    if (worker.has_value()) {
      call.Print(absl::StrCat("this user is ", MemberName(worker->peer.identity), " of cluster ",
                              door.authority.cluster, " already\n", worker->path));
      return absl::OkStatus();
    }
  }
  JoinRequest request;
  request.set_cluster(door.authority.cluster);
  request.set_token(door.invitation.token.id);
  request.set_secret(door.invitation.token.secret);
  ASSIGN_OR_RETURN(const JoinReply terms,
                   env.join_client->Join(door.invitation.address, door.certificate, request));
  ASSIGN_OR_RETURN(const Identity identity, WhoAsks(env, flags, terms, door.authority.cluster));
  if (flags.program && identity.role != Role::kWorker) {
    return absl::InvalidArgumentError(absl::StrCat("the token is for a ", terms.role(),
                                                   "; a program joins with one for a worker"));
  }
  RETURN_IF_ERROR(CheckNew(store, identity, other, env.clock->WallTime()));
  ASSIGN_OR_RETURN(const Credential member, Ask(env.join_client, door, identity, env, request));
  RETURN_IF_ERROR(store.Save(member, other));
  ASSIGN_OR_RETURN(const Peer peer, ReadPeer(member.certificate));
  call.Print(absl::StrCat("joined cluster ", identity.cluster, " as ", MemberName(identity),
                          identity.job.empty() ? "" : absl::StrCat(", for job ", identity.job),
                          "\n", store.MemberPath(identity), ": until ",
                          TimeText(absl::ToUnixMillis(peer.validity.end))));
  return absl::OkStatus();
}

}  // namespace

int RunJoin(Invocation& call) {
  JoinFlags flags;
  call.flags().Add("task", &flags.task, "which task of the cluster file this is: a number");
  call.flags().Add("name", &flags.name,
                   "what a worker that is not listed, or a person, is called; else this host's "
                   "name and some digits, or the user's name");
  call.flags().Add("replace", &flags.replace,
                   "set aside what is here of another cluster of the name, or take another key");
  call.flags().Add("program", &flags.program,
                   "of a program: only where this user is no worker of the cluster yet");
  if (const std::optional<int> code = call.Parse(1, 1)) {
    return *code;
  }
  CHECK(call.env().join_client != nullptr);
  const absl::Status status = Join(call, flags);
  return status.ok() ? kExitOk : call.Fail(status);
}

}  // namespace monsoon
