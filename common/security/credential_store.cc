#include "common/security/credential_store.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/random_bytes.h"
#include "common/base/status.h"
#include "common/security/certificate.h"
#include "common/security/peer_verifier.h"
#include "common/security/secret_file.h"
#include "common/security/signing_request.h"

namespace monsoon {
namespace {

constexpr char kAuthorityFile[] = "authority.pem";
constexpr absl::string_view kEnd = ".pem";
// A cluster's name has none, so no cluster's folder is called so.
constexpr char kSetAside[] = "~";
constexpr size_t kSetAsideBytes = 4;
// Digits of a key's fingerprint that people are shown.
constexpr size_t kShownBytes = 4;

absl::Status CheckName(absl::string_view cluster) {
  return CheckIdentity({Role::kViewer, "any", std::string(cluster), ""});
}

std::string Shown(const std::string& fingerprint) {
  return absl::BytesToHexString(fingerprint.substr(0, kShownBytes));
}

absl::Status OfAnotherCluster(const std::string& path, const std::string& found,
                              absl::string_view wanted) {
  return absl::FailedPreconditionError(absl::StrCat(path, " is of cluster ", found, ", not of ",
                                                    wanted,
                                                    "; a folder here is called as its cluster"));
}

// Whether the cluster's folder has anything of another authority.
absl::StatusOr<bool> HasOthers(const CredentialStore& store, const Authority& authority) {
  const absl::StatusOr<CertificateAuthority> own = store.Authority(authority.cluster);
  if (!own.ok() && !absl::IsNotFound(own.status())) {
    return own.status();
  }
  bool others = own.ok() && own->facts().fingerprint != authority.fingerprint;
  ASSIGN_OR_RETURN(const std::vector<KeptMember> members, store.Members(authority.cluster));
  for (const KeptMember& member : members) {
    ASSIGN_OR_RETURN(const Authority facts, ReadAuthority(member.authority));
    others |= facts.fingerprint != authority.fingerprint;
  }
  return others;
}

absl::Status CheckHolds(const KeptMember& kept, absl::Time now) {
  ASSIGN_OR_RETURN(const PeerVerifier verifier, PeerVerifier::Create(kept.authority));
  return verifier.Verify(kept.certificate, now).status();
}

// Of whichever may be taken.
bool IsBetter(const KeptMember& one, const KeptMember& other, absl::Time now) {
  const auto rank = [now](const KeptMember& member) {
    return std::tuple(CheckHolds(member, now).ok(), member.peer.identity.job.empty(),
                      member.peer.validity.end);
  };
  return rank(one) > rank(other);
}

// Null where there is none.
const KeptMember* Best(const std::vector<KeptMember>& members, absl::Time now) {
  const KeptMember* best = nullptr;
  for (const KeptMember& member : members) {
    if (best == nullptr || IsBetter(member, *best, now)) {
      best = &member;
    }
  }
  return best;
}

// Whether the certificate is in the first half of its time.
bool IsFresh(const Credential& kept, absl::Time now) {
  const absl::StatusOr<Peer> peer = ReadPeer(kept.certificate);
  return peer.ok() && now >= peer->validity.begin && InFirstHalf(peer->validity, now);
}

absl::StatusOr<Credential> Issue(const CertificateAuthority& authority, const PrivateKey& key,
                                 const Identity& identity, const std::vector<std::string>& hosts,
                                 absl::Time now) {
  ASSIGN_OR_RETURN(const std::string request, MakeSigningRequest(key, identity, hosts));
  ASSIGN_OR_RETURN(std::string certificate, authority.Sign(request, {identity, hosts}, now));
  return Credential{key, std::move(certificate), authority.certificate()};
}

// Sees to it that the file has a credential of the authority in the first half of its time.
absl::Status KeepFresh(const CertificateAuthority& authority, const std::string& path,
                       const Identity& identity, const std::vector<std::string>& hosts,
                       absl::Time now) {
  const absl::StatusOr<Credential> kept = LoadCredential(path);
  const bool its_own = kept.ok() && kept->authority == authority.certificate();
  if (its_own && IsFresh(*kept, now)) {
    return absl::OkStatus();
  }
  // A member is its key: whose sessions are open under it goes on with the next certificate.
  ASSIGN_OR_RETURN(
      const Credential credential,
      Issue(authority, its_own ? kept->key : PrivateKey::Generate(), identity, hosts, now));
  const absl::Status saved = SaveCredential(
      path, credential, absl::IsNotFound(kept.status()) ? Existing::kKeep : Existing::kReplace);
  // Another process of this one's name was faster, and both are to have one key.
  return absl::IsAlreadyExists(saved) ? absl::OkStatus() : saved;
}

}  // namespace

absl::StatusOr<CredentialStore> CredentialStore::Find(const Variables& variables) {
  const std::string given = variables(kCredentialsVariable).value_or("");
  if (!given.empty()) {
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(given, error);
    if (error) {
      return absl::FailedPreconditionError(
          absl::StrCat(kCredentialsVariable, ": ", given, ": ", error.message()));
    }
    return CredentialStore(absolute.lexically_normal().string());
  }
  const std::string state = variables("XDG_STATE_HOME").value_or("");
  if (absl::StartsWith(state, "/")) {
    return CredentialStore(absl::StrCat(state, "/monsoon/credentials"));
  }
  const std::string home = variables("HOME").value_or("");
  if (absl::StartsWith(home, "/")) {
    return CredentialStore(absl::StrCat(home, "/.local/state/monsoon/credentials"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no folder for credentials: neither ", kCredentialsVariable,
                   ", XDG_STATE_HOME nor HOME is set to an absolute path; set ",
                   kCredentialsVariable, " to a folder that only this user can read"));
}

std::string CredentialStore::FolderOf(absl::string_view cluster) const {
  return absl::StrCat(folder_, "/", cluster);
}

std::string CredentialStore::AuthorityPath(absl::string_view cluster) const {
  return absl::StrCat(FolderOf(cluster), "/", kAuthorityFile);
}

std::string CredentialStore::MemberPath(const Identity& identity) const {
  return absl::StrCat(FolderOf(identity.cluster), "/", RoleName(identity.role), "-", identity.name,
                      kEnd);
}

std::vector<std::string> CredentialStore::MemberPaths(absl::string_view cluster,
                                                      std::optional<Role> role) const {
  std::vector<std::string> paths;
  std::error_code error;
  std::filesystem::directory_iterator entries(FolderOf(cluster), error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    const std::string begin = role.has_value() ? absl::StrCat(RoleName(*role), "-") : std::string();
    if (name != kAuthorityFile && absl::StartsWith(name, begin) && absl::EndsWith(name, kEnd)) {
      paths.push_back(entries->path().string());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

absl::StatusOr<std::vector<std::string>> CredentialStore::Clusters() const {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder_, error);
  if (error == std::errc::no_such_file_or_directory) {
    return names;
  }
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (CheckName(name).ok() && Has(name)) {
      names.push_back(name);
    }
  }
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder_, ": cannot list the folder: ", error.message()));
  }
  std::ranges::sort(names);
  return names;
}

bool CredentialStore::Has(absl::string_view cluster) const {
  std::error_code ignored;
  return CheckName(cluster).ok() && (std::filesystem::exists(AuthorityPath(cluster), ignored) ||
                                     !MemberPaths(cluster, std::nullopt).empty());
}

absl::StatusOr<CertificateAuthority> CredentialStore::Authority(absl::string_view cluster) const {
  RETURN_IF_ERROR(CheckName(cluster));
  ASSIGN_OR_RETURN(CertificateAuthority authority, LoadAuthority(AuthorityPath(cluster)));
  if (authority.facts().cluster != cluster) {
    return OfAnotherCluster(AuthorityPath(cluster), authority.facts().cluster, cluster);
  }
  return authority;
}

absl::StatusOr<KeptMember> CredentialStore::LoadMember(absl::string_view cluster,
                                                       const std::string& path) const {
  ASSIGN_OR_RETURN(const Credential credential, LoadCredential(path));
  KeptMember kept = {path, {}, credential.certificate, credential.authority};
  ASSIGN_OR_RETURN(kept.peer, ReadPeer(kept.certificate));
  if (kept.peer.identity.cluster != cluster) {
    return OfAnotherCluster(path, kept.peer.identity.cluster, cluster);
  }
  if (path != MemberPath(kept.peer.identity)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is of ", MemberName(kept.peer.identity),
                     "; a file here is called as who it is of: ", MemberPath(kept.peer.identity)));
  }
  return kept;
}

absl::StatusOr<std::vector<KeptMember>> CredentialStore::Members(absl::string_view cluster,
                                                                 std::optional<Role> role) const {
  RETURN_IF_ERROR(CheckName(cluster));
  std::vector<KeptMember> members;
  for (const std::string& path : MemberPaths(cluster, role)) {
    ASSIGN_OR_RETURN(KeptMember member, LoadMember(cluster, path));
    members.push_back(std::move(member));
  }
  return members;
}

absl::StatusOr<std::string> CredentialStore::AuthorityCertificate(absl::string_view cluster) const {
  const absl::StatusOr<CertificateAuthority> authority = Authority(cluster);
  if (authority.ok()) {
    return authority->certificate();
  }
  ASSIGN_OR_RETURN(const std::vector<KeptMember> members, Members(cluster));
  return members.empty() ? absl::StatusOr<std::string>(authority.status())
                         : members.front().authority;
}

absl::Status CredentialStore::CheckFree(const monsoon::Authority& authority,
                                        OtherAuthority other) const {
  RETURN_IF_ERROR(CheckName(authority.cluster));
  ASSIGN_OR_RETURN(const bool others, HasOthers(*this, authority));
  if (!others || other == OtherAuthority::kSetAside) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(absl::StrCat(
      FolderOf(authority.cluster), " has credentials of another cluster that is called ",
      authority.cluster, ", whose authority is not ", Shown(authority.fingerprint),
      "...; --replace sets them aside, another ", kCredentialsVariable, " keeps both"));
}

absl::Status CredentialStore::MakeRoom(const monsoon::Authority& authority,
                                       OtherAuthority other) const {
  RETURN_IF_ERROR(CheckFree(authority, other));
  const std::filesystem::path parent = std::filesystem::path(folder_).parent_path();
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat(parent.string(), ": cannot make the folder: ", error.message(), "; ",
                     kCredentialsVariable, " may name another one"));
  }
  const std::string folder = FolderOf(authority.cluster);
  RETURN_IF_ERROR(MakeSecretFolder(folder_));
  RETURN_IF_ERROR(MakeSecretFolder(folder));
  // Whoever has come meanwhile may not be set aside either.
  if (other == OtherAuthority::kRefuse) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool others, HasOthers(*this, authority));
  if (!others) {
    return absl::OkStatus();
  }
  const std::string aside =
      absl::StrCat(folder, kSetAside, absl::BytesToHexString(RandomBytes(kSetAsideBytes)));
  std::filesystem::rename(folder, aside, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": cannot be set aside as ", aside, ": ", error.message()));
  }
  return MakeSecretFolder(folder);
}

absl::Status CredentialStore::Save(const CertificateAuthority& authority,
                                   OtherAuthority other) const {
  RETURN_IF_ERROR(MakeRoom(authority.facts(), other));
  return SaveAuthority(AuthorityPath(authority.facts().cluster), authority);
}

absl::Status CredentialStore::Save(const Credential& member, OtherAuthority other) const {
  ASSIGN_OR_RETURN(const monsoon::Authority authority, ReadAuthority(member.authority));
  ASSIGN_OR_RETURN(const Peer peer, ReadPeer(member.certificate));
  RETURN_IF_ERROR(MakeRoom(authority, other));
  return SaveCredential(MemberPath(peer.identity), member);
}

absl::Status CredentialStore::NotKept(const Identity& wanted) const {
  ASSIGN_OR_RETURN(const std::vector<KeptMember> others, Members(wanted.cluster));
  if (others.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "this user has no credential for cluster ", wanted.cluster, " on this host (", folder_,
        "); ask for a token there, `monsoon token create --role=", RoleName(wanted.role),
        "`, and join: monsoon join INVITATION"));
  }
  const std::string names =
      absl::StrJoin(others, ", ", [](std::string* text, const KeptMember& member) {
        absl::StrAppend(text, MemberName(member.peer.identity));
      });
  const std::string wants =
      wanted.name.empty() ? std::string(RoleName(wanted.role)) : MemberName(wanted);
  return absl::FailedPreconditionError(absl::StrCat(
      FolderOf(wanted.cluster), " says that this user is ", names, " of cluster ", wanted.cluster,
      ", not ", wants, "; join with a token for a ", RoleName(wanted.role), " too"));
}

absl::StatusOr<std::string> CredentialStore::ObtainFile(const Identity& wanted,
                                                        const std::vector<std::string>& hosts,
                                                        absl::Time now) const {
  const absl::StatusOr<CertificateAuthority> authority = Authority(wanted.cluster);
  if (!authority.ok() && !absl::IsNotFound(authority.status())) {
    return authority.status();
  }
  Identity identity = wanted;
  if (identity.name.empty()) {
    ASSIGN_OR_RETURN(const std::vector<KeptMember> kept, Members(wanted.cluster, wanted.role));
    const KeptMember* best = Best(kept, now);
    if (best == nullptr && !authority.ok()) {
      return NotKept(wanted);
    }
    identity.name = best == nullptr ? "local" : best->peer.identity.name;
  }
  RETURN_IF_ERROR(CheckIdentity(identity));
  const std::string path = MemberPath(identity);
  if (authority.ok()) {
    RETURN_IF_ERROR(KeepFresh(*authority, path, identity, hosts, now));
    return path;
  }
  const absl::StatusOr<KeptMember> kept = LoadMember(wanted.cluster, path);
  if (absl::IsNotFound(kept.status())) {
    return NotKept(wanted);
  }
  RETURN_IF_ERROR(kept.status());
  if (const absl::Status holds = CheckHolds(*kept, now); !holds.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": ", holds.message(), "; ask for a token and join again: monsoon join INVITATION"));
  }
  return path;
}

bool InFirstHalf(const Validity& validity, absl::Time now) {
  return now < validity.begin + (validity.end - validity.begin) / 2;
}

absl::StatusOr<Credential> IssueLocal(const CertificateAuthority& authority,
                                      const Identity& identity,
                                      const std::vector<std::string>& hosts, absl::Time now) {
  return Issue(authority, PrivateKey::Generate(), identity, hosts, now);
}

}  // namespace monsoon
