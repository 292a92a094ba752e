#include "common/transport/own_tls.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/security/peer_verifier.h"

namespace monsoon {
namespace {

constexpr absl::Duration kProbe = absl::Seconds(3);

// Which of this user's clusters it is whose coordinator answers there; nothing: one without TLS.
absl::StatusOr<std::optional<std::string>> ClusterAt(const std::string& address,
                                                     const std::vector<std::string>& clusters,
                                                     const CredentialStore& store) {
  ASSIGN_OR_RETURN(const ProbedServer server, ProbeCoordinator(address, std::nullopt, kProbe));
  if (!server.speaks_tls) {
    return std::optional<std::string>();
  }
  for (const std::string& cluster : clusters) {
    const absl::StatusOr<std::string> authority = store.AuthorityCertificate(cluster);
    if (!authority.ok()) {
      continue;
    }
    const absl::StatusOr<PeerVerifier> verifier = PeerVerifier::Create(*authority);
    // One that has ended is of the cluster still; the connection will say so.
    if (verifier.ok() && verifier->VerifySigned(server.chain).ok()) {
      return std::optional<std::string>(cluster);
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "what answers at ", address, " is of no cluster that this user has joined here (",
      clusters.empty() ? "none" : absl::StrJoin(clusters, ", "), " in ", store.folder(),
      "); ask for a token there and join: monsoon join INVITATION"));
}

// As what a person is in the cluster: who may change jobs before who may look at them.
absl::StatusOr<Role> PersonsRole(const CredentialStore& store, const std::string& cluster) {
  if (store.Authority(cluster).ok()) {
    return Role::kOperator;
  }
  for (const Role role : {Role::kOperator, Role::kViewer, Role::kWorker, Role::kPs}) {
    ASSIGN_OR_RETURN(const std::vector<KeptMember> members, store.Members(cluster, role));
    if (!members.empty()) {
      return role;
    }
  }
  return Role::kOperator;
}

absl::Status NoCredentials(const std::string& cluster, const absl::Status& why) {
  return Annotate(why, absl::StrCat("no credentials for cluster ", cluster,
                                    " can be made; --insecure does without"));
}

// Of a cluster that only this machine reaches: nobody else has to be let in.
absl::Status MakeAuthority(const CredentialStore& store, const std::string& cluster) {
  ASSIGN_OR_RETURN(const CertificateAuthority authority,
                   CertificateAuthority::Create(cluster, absl::Now()));
  const absl::Status made = store.Save(authority, OtherAuthority::kRefuse);
  // Another task was first, or has been between two looks.
  if (absl::IsAlreadyExists(made) && store.Authority(cluster).ok()) {
    return absl::OkStatus();
  }
  return made.ok() ? made : NoCredentials(cluster, made);
}

}  // namespace

bool IsOfOneMachine(const Cluster& cluster) {
  std::vector<std::string> addresses = {cluster.coordinator().address()};
  for (const ParameterServerTask& ps : cluster.ps()) {
    addresses.push_back(ps.address());
  }
  for (const WorkerTask& worker : cluster.worker()) {
    addresses.push_back(worker.address());
  }
  return std::ranges::any_of(addresses, &IsTcp) &&
         std::ranges::all_of(addresses, [](const std::string& address) {
           return !IsTcp(address) || IsLoopback(address);
         });
}

absl::StatusOr<std::shared_ptr<Tls>> OwnTls(const OwnTlsOptions& options,
                                            const CredentialStore::Variables& variables) {
  const std::shared_ptr<Tls> plain;
  if (options.insecure || variables(kInsecureVariable).value_or("") == "1") {
    return plain;
  }
  const absl::StatusOr<CredentialStore> store = CredentialStore::Find(variables);
  if (!store.ok()) {
    return options.founds ? NoCredentials(options.cluster, store.status())
                          : absl::StatusOr<std::shared_ptr<Tls>>(plain);
  }
  std::string cluster = options.cluster;
  if (cluster.empty() && !IsTcp(options.coordinator)) {
    return plain;
  }
  if (cluster.empty()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> clusters, store->Clusters());
    ASSIGN_OR_RETURN(const std::optional<std::string> found,
                     ClusterAt(options.coordinator, clusters, *store));
    if (!found.has_value()) {
      return plain;
    }
    cluster = *found;
  }
  if (!store->Has(cluster)) {
    if (!options.founds) {
      return plain;
    }
    RETURN_IF_ERROR(MakeAuthority(*store, cluster));
  }
  Identity wanted = {Role::kOperator, options.name, cluster, ""};
  if (options.role.has_value()) {
    wanted.role = *options.role;
  } else {
    ASSIGN_OR_RETURN(wanted.role, PersonsRole(*store, cluster));
  }
  ASSIGN_OR_RETURN(const std::string file, store->ObtainFile(wanted, {}, absl::Now()));
  return Tls::Open(file);
}

std::string OwnMemberName(const Tls* tls) {
  return tls == nullptr || tls->file().empty() ? "" : MemberName(tls->self());
}

absl::StatusOr<ProbedServer> ProbeCoordinator(const std::string& address,
                                              const std::optional<Credential>& credential,
                                              absl::Duration deadline) {
  ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  if (parsed.kind != Address::Kind::kTcp) {
    return absl::InvalidArgumentError(
        absl::StrCat("coordinator at ", address, ": the address is no host:port"));
  }
  absl::StatusOr<ProbedServer> server = ProbeTls(parsed.host, parsed.port, credential, deadline);
  return server.ok()
             ? server
             : Annotate(server.status(), absl::StrCat("coordinator at ", address, " not reached"));
}

bool HasCredential(const std::string& cluster, const CredentialStore::Variables& variables) {
  const absl::StatusOr<CredentialStore> store = CredentialStore::Find(variables);
  return store.ok() && store->Has(cluster);
}

bool HasAuthority(const std::string& cluster, const CredentialStore::Variables& variables) {
  const absl::StatusOr<CredentialStore> store = CredentialStore::Find(variables);
  std::error_code error;
  return store.ok() && std::filesystem::exists(store->AuthorityPath(cluster), error);
}

}  // namespace monsoon
