// CredentialStore: where this user's credentials lie: a folder with one folder for each cluster,
// by its name:
//
//   FOLDER/lab/authority.pem   the cluster's authority, on the host where the cluster was made
//   FOLDER/lab/worker-7.pem    who this user is in the cluster, on this host: of each role and
//   FOLDER/lab/operator-ada.pem  name that he has joined as, or that the authority has made here
//
// FOLDER is $MONSOON_CREDENTIALS, else $XDG_STATE_HOME/monsoon/credentials, else
// $HOME/.local/state/monsoon/credentials. Folders and files are those of secret_file.h: nobody
// else can read them.
//
// Two clusters of one name are told apart by their authorities' keys. What belongs to another
// authority than what is there is refused, or, where the caller says so, takes its place: what was
// there is set aside as FOLDER/NAME~XXXXXXXX, never deleted, since an authority's key is nowhere
// else.
//
// A plain value. Its calls block on the disk.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/certificate.h"
#include "common/security/certificate_authority.h"
#include "common/security/credential_file.h"
#include "common/security/identity.h"

namespace monsoon {

// The variable that names the folder.
inline constexpr char kCredentialsVariable[] = "MONSOON_CREDENTIALS";

// What becomes of credentials of a cluster of the same name with another authority.
enum class OtherAuthority { kRefuse, kSetAside };

// What is kept of somebody.
struct KeptMember {
  std::string path;
  Peer peer;
  std::string certificate;  // PEM
  std::string authority;    // PEM
};

class CredentialStore {
 public:
  // A variable of the environment; nothing when it is not set.
  using Variables = std::function<std::optional<std::string>(const std::string& name)>;

  // `folder` is absolute, and need not be there.
  explicit CredentialStore(std::string folder) : folder_(std::move(folder)) {}
  // FailedPrecondition, which says what to set, where no variable tells where the folder is.
  static absl::StatusOr<CredentialStore> Find(const Variables& variables);

  const std::string& folder() const { return folder_; }
  std::string AuthorityPath(absl::string_view cluster) const;
  std::string MemberPath(const Identity& identity) const;

  // The names of the clusters that have anything here, sorted; none where there is no folder.
  absl::StatusOr<std::vector<std::string>> Clusters() const;
  // Whether there is anything of the cluster.
  bool Has(absl::string_view cluster) const;

  // NotFound says where nothing is; else as LoadAuthority. FailedPrecondition too where what is
  // there is of a cluster of another name. InvalidArgument for what is no cluster's name.
  absl::StatusOr<CertificateAuthority> Authority(absl::string_view cluster) const;
  // Who is kept, of one role or of all, by path. An error where a file cannot be used: as
  // LoadCredential, and FailedPrecondition where it is not called as who it is of.
  absl::StatusOr<std::vector<KeptMember>> Members(absl::string_view cluster,
                                                  std::optional<Role> role = std::nullopt) const;
  // The certificate of the authority whose credentials are here, PEM. As Authority and Members;
  // NotFound where there is neither.
  absl::StatusOr<std::string> AuthorityCertificate(absl::string_view cluster) const;

  // OK where Save would find nothing of another authority, or may set it aside; else as Save. Makes
  // and changes nothing.
  absl::Status CheckFree(const monsoon::Authority& authority, OtherAuthority other) const;
  // Make the folders that are missing. AlreadyExists, with what to do, where the cluster's folder
  // has credentials of another authority and `other` is kRefuse; of an authority also where it is
  // there. What is kept of the same member is replaced.
  absl::Status Save(const CertificateAuthority& authority, OtherAuthority other) const;
  absl::Status Save(const Credential& member, OtherAuthority other) const;

  // The path of a file that says of a process on this host that it has this role in the cluster,
  // for who looks at it again to see it renewed. Where the authority is here, it makes what is
  // missing, and a new certificate of the same key once half of its time is over: call again before
  // it ends. Processes that call at once get one key. `name` "": whichever is kept, with the
  // longest time to go and for any job where there are several; whoever the authority makes is
  // "local" then. FailedPrecondition, which says how to join, where what is kept is for others, or
  // has ended; NotFound where nothing is.
  absl::StatusOr<std::string> ObtainFile(const Identity& wanted,
                                         const std::vector<std::string>& hosts,
                                         absl::Time now) const;

 private:
  // Makes the cluster's folder, which has nothing of another authority than this afterwards.
  absl::Status MakeRoom(const monsoon::Authority& authority, OtherAuthority other) const;
  std::string FolderOf(absl::string_view cluster) const;
  // The paths of credentials, sorted.
  std::vector<std::string> MemberPaths(absl::string_view cluster, std::optional<Role> role) const;
  absl::StatusOr<KeptMember> LoadMember(absl::string_view cluster, const std::string& path) const;
  // Why there is none for whoever is wanted.
  absl::Status NotKept(const Identity& wanted) const;

  std::string folder_;
};

// Whether the certificate needs no other one yet.
bool InFirstHalf(const Validity& validity, absl::Time now);

// A credential with a new key, which is on no disk. InvalidArgument where the authority is another
// cluster's, or the identity or a host's name is none.
absl::StatusOr<Credential> IssueLocal(const CertificateAuthority& authority,
                                      const Identity& identity,
                                      const std::vector<std::string>& hosts, absl::Time now);

}  // namespace monsoon
