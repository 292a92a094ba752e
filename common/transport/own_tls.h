// OwnTls: how this process proves who it is in its cluster: with the credential that this user has
// on this host (common/security/credential_store.h).
//
// Plain functions. Block on the disk, and where the cluster's name is not known on its coordinator,
// for some seconds.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/credential_file.h"
#include "common/security/credential_store.h"
#include "common/security/identity.h"
#include "common/security/tls_probe.h"
#include "common/transport/grpc/tls.h"
#include "proto/cluster.pb.h"

namespace monsoon {

// A client that says so does without credentials as well.
inline constexpr char kInsecureVariable[] = "MONSOON_INSECURE";

struct OwnTlsOptions {
  std::string cluster;      // "": whose coordinator answers at `coordinator`
  std::string coordinator;  // its address
  // None: of a person, whom the authority makes an operator, and who is whatever he has joined as
  // elsewhere: what he may do, the coordinator says.
  std::optional<Role> role;
  std::string name;  // of a task its number; "": whichever this user has
  bool insecure = false;
  // Of a task whose cluster IsOfOneMachine: makes the authority where this user has nothing of the
  // cluster. Such a cluster needs no `cluster init`, and other users of the machine are kept out.
  bool founds = false;
};

// Whether tasks of the cluster listen for TCP, and all of them on the loopback.
bool IsOfOneMachine(const Cluster& cluster);

// Null where nothing is proved: `insecure`, the variable is 1, or this user has no credential of
// the cluster and does not found it. Errors say which credential cannot be used or made, and what
// to do; of a cluster without a name, that its coordinator does not answer, or that this user has
// no credential for it.
absl::StatusOr<std::shared_ptr<Tls>> OwnTls(const OwnTlsOptions& options,
                                            const CredentialStore::Variables& variables);

// MemberName of who `tls` shows that this process is; "" where it shows nobody, and for null.
std::string OwnMemberName(const Tls* tls);

// ProbeTls of a coordinator's address, which must be host:port. Errors name it.
absl::StatusOr<ProbedServer> ProbeCoordinator(const std::string& address,
                                              const std::optional<Credential>& credential,
                                              absl::Duration deadline);

// Whether this user has any credential of the cluster on this host.
bool HasCredential(const std::string& cluster, const CredentialStore::Variables& variables);
// Whether it is this user who runs the cluster: the authority is here.
bool HasAuthority(const std::string& cluster, const CredentialStore::Variables& variables);

}  // namespace monsoon
