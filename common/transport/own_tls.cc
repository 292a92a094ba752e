#include "common/transport/own_tls.h"

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

bool IsKept(const CredentialStore& store, const std::string& cluster) {
  std::error_code error;
  return std::filesystem::exists(store.AuthorityPath(cluster), error) ||
         std::filesystem::exists(store.MemberPath(cluster), error);
}

// Which of this user's clusters it is whose coordinator answers there; nothing: one without TLS.
absl::StatusOr<std::optional<std::string>> ClusterAt(const std::string& address,
                                                     const std::vector<std::string>& clusters,
                                                     const CredentialStore& store) {
  ASSIGN_OR_RETURN(const ProbedServer server, ProbeCoordinator(address, std::nullopt, kProbe));
  if (!server.speaks_tls) {
    return std::optional<std::string>();
  }
  for (const std::string& cluster : clusters) {
    const absl::StatusOr<CertificateAuthority> authority = store.Authority(cluster);
    const absl::StatusOr<Credential> member = store.Member(cluster);
    if (!authority.ok() && !member.ok()) {
      continue;
    }
    const absl::StatusOr<PeerVerifier> verifier =
        PeerVerifier::Create(authority.ok() ? authority->certificate() : member->authority);
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

}  // namespace

absl::StatusOr<std::shared_ptr<Tls>> OwnTls(const OwnTlsOptions& options,
                                            const CredentialStore::Variables& variables) {
  const std::shared_ptr<Tls> plain;
  if (options.insecure || variables(kInsecureVariable).value_or("") == "1") {
    return plain;
  }
  const absl::StatusOr<CredentialStore> store = CredentialStore::Find(variables);
  if (!store.ok()) {
    return plain;
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
  } else if (!IsKept(*store, cluster)) {
    return plain;
  }
  Identity wanted = {options.role.value_or(Role::kOperator), options.name, cluster, ""};
  if (const absl::StatusOr<Credential> member = store->Member(cluster);
      member.ok() && !options.role.has_value()) {
    ASSIGN_OR_RETURN(const Peer self, ReadPeer(member->certificate));
    wanted.role = self.identity.role;
  }
  ASSIGN_OR_RETURN(const std::string file, store->ObtainFile(wanted, {}, absl::Now()));
  return Tls::Open(file);
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
  return store.ok() && IsKept(*store, cluster);
}

bool HasAuthority(const std::string& cluster, const CredentialStore::Variables& variables) {
  const absl::StatusOr<CredentialStore> store = CredentialStore::Find(variables);
  std::error_code error;
  return store.ok() && std::filesystem::exists(store->AuthorityPath(cluster), error);
}

}  // namespace monsoon
