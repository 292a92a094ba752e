#include "common/security/credential_store.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/random_bytes.h"
#include "common/base/status.h"
#include "common/security/certificate.h"
#include "common/security/peer_verifier.h"
#include "common/security/secret_file.h"
#include "common/security/signing_request.h"

namespace monsoon {
namespace {

constexpr char kAuthorityFile[] = "authority.pem";
constexpr char kMemberFile[] = "member.pem";
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
  const absl::StatusOr<Credential> member = store.Member(authority.cluster);
  if (!member.ok() && !absl::IsNotFound(member.status())) {
    return member.status();
  }
  bool others = own.ok() && own->facts().fingerprint != authority.fingerprint;
  if (member.ok()) {
    ASSIGN_OR_RETURN(const Authority facts, ReadAuthority(member->authority));
    others |= facts.fingerprint != authority.fingerprint;
  }
  return others;
}

// That what is kept may stand for who is wanted.
absl::Status CheckKept(const CredentialStore& store, const Credential& kept, const Identity& wanted,
                       absl::Time now) {
  ASSIGN_OR_RETURN(const PeerVerifier verifier, PeerVerifier::Create(kept.authority));
  const absl::StatusOr<Peer> holder = verifier.Verify(kept.certificate, now);
  const std::string path = store.MemberPath(wanted.cluster);
  if (!holder.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": ", holder.status().message(),
                     "; ask for a token and join again: monsoon join INVITATION"));
  }
  const Identity& is = holder->identity;
  const bool other_name = !wanted.name.empty() && is.name != wanted.name;
  if (is.role != wanted.role || other_name) {
    const std::string wants =
        wanted.name.empty() ? std::string(RoleName(wanted.role)) : MemberName(wanted);
    return absl::FailedPreconditionError(
        absl::StrCat(path, " says that this user is ", MemberName(is), " of cluster ", is.cluster,
                     ", not ", wants, "; join with a token for a ", RoleName(wanted.role),
                     ", with another ", kCredentialsVariable, " to stay both"));
  }
  return absl::OkStatus();
}

// Whether the file has a credential of the authority with this certificate in the first half of its
// time.
bool IsFresh(const std::string& path, const std::string& authority, absl::Time now) {
  const absl::StatusOr<Credential> kept = LoadCredential(path);
  if (!kept.ok() || kept->authority != authority) {
    return false;
  }
  const absl::StatusOr<Peer> peer = ReadPeer(kept->certificate);
  return peer.ok() && now >= peer->validity.begin && InFirstHalf(peer->validity, now);
}

// As whom the authority certifies who is wanted.
Identity Named(const Identity& wanted) {
  Identity identity = wanted;
  identity.name = wanted.name.empty() ? "local" : wanted.name;
  return identity;
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

std::string CredentialStore::MemberPath(absl::string_view cluster) const {
  return absl::StrCat(FolderOf(cluster), "/", kMemberFile);
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
    std::error_code ignored;
    if (CheckName(name).ok() && (std::filesystem::exists(AuthorityPath(name), ignored) ||
                                 std::filesystem::exists(MemberPath(name), ignored))) {
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

absl::StatusOr<CertificateAuthority> CredentialStore::Authority(absl::string_view cluster) const {
  RETURN_IF_ERROR(CheckName(cluster));
  ASSIGN_OR_RETURN(CertificateAuthority authority, LoadAuthority(AuthorityPath(cluster)));
  if (authority.facts().cluster != cluster) {
    return OfAnotherCluster(AuthorityPath(cluster), authority.facts().cluster, cluster);
  }
  return authority;
}

absl::StatusOr<Credential> CredentialStore::Member(absl::string_view cluster) const {
  RETURN_IF_ERROR(CheckName(cluster));
  ASSIGN_OR_RETURN(Credential member, LoadCredential(MemberPath(cluster)));
  ASSIGN_OR_RETURN(const Peer peer, ReadPeer(member.certificate));
  if (peer.identity.cluster != cluster) {
    return OfAnotherCluster(MemberPath(cluster), peer.identity.cluster, cluster);
  }
  return member;
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
  return SaveCredential(MemberPath(peer.identity.cluster), member);
}

absl::StatusOr<Credential> CredentialStore::Obtain(const Identity& wanted,
                                                   const std::vector<std::string>& hosts,
                                                   absl::Time now) const {
  const absl::StatusOr<CertificateAuthority> authority = Authority(wanted.cluster);
  if (authority.ok()) {
    return IssueLocal(*authority, Named(wanted), hosts, now);
  }
  if (!absl::IsNotFound(authority.status())) {
    return authority.status();
  }
  absl::StatusOr<Credential> kept = Member(wanted.cluster);
  if (absl::IsNotFound(kept.status())) {
    return absl::NotFoundError(absl::StrCat(
        "this user has no credential for cluster ", wanted.cluster, " on this host (", folder_,
        "); ask for a token there, `monsoon token create --role=", RoleName(wanted.role),
        "`, and join: monsoon join INVITATION"));
  }
  RETURN_IF_ERROR(kept.status());
  RETURN_IF_ERROR(CheckKept(*this, *kept, wanted, now));
  return kept;
}

absl::StatusOr<std::string> CredentialStore::ObtainFile(const Identity& wanted,
                                                        const std::vector<std::string>& hosts,
                                                        absl::Time now) const {
  const absl::StatusOr<CertificateAuthority> authority = Authority(wanted.cluster);
  if (!authority.ok()) {
    RETURN_IF_ERROR(Obtain(wanted, hosts, now).status());
    return MemberPath(wanted.cluster);
  }
  const Identity identity = Named(wanted);
  RETURN_IF_ERROR(CheckIdentity(identity));
  const std::string path = absl::StrCat(FolderOf(identity.cluster), "/", RoleName(identity.role),
                                        "-", identity.name, ".pem");
  if (!IsFresh(path, authority->certificate(), now)) {
    ASSIGN_OR_RETURN(const Credential credential, IssueLocal(*authority, identity, hosts, now));
    RETURN_IF_ERROR(SaveCredential(path, credential));
  }
  return path;
}

bool InFirstHalf(const Validity& validity, absl::Time now) {
  return now < validity.begin + (validity.end - validity.begin) / 2;
}

absl::StatusOr<Credential> IssueLocal(const CertificateAuthority& authority,
                                      const Identity& identity,
                                      const std::vector<std::string>& hosts, absl::Time now) {
  const PrivateKey key = PrivateKey::Generate();
  ASSIGN_OR_RETURN(const std::string request, MakeSigningRequest(key, identity, hosts));
  ASSIGN_OR_RETURN(std::string certificate, authority.Sign(request, {identity, hosts}, now));
  return Credential{key, std::move(certificate), authority.certificate()};
}

}  // namespace monsoon
