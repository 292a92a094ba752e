// Tls: how a process proves who it is on its connections, and which certificates it believes.
//
// It is made of a credential file (common/security/credential_file.h). The file is looked at each
// second, so that who renews it replaces it, and connections made from then on have the new
// certificate; those that there are stay.
//
// Both ends of a connection show a certificate of the same cluster, and each asks for what the
// other one's may do: a client that the server is of the role it looks for, a server that there is
// a certificate at all. Names of hosts decide nothing (docs/decisions/009-credentials.md).
//
// Shared by all servers and channels of a process. Thread safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/security/certificate.h"
#include "common/security/identity.h"
#include "common/security/peer_verifier.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
namespace experimental {
class CertificateProviderInterface;
}  // namespace experimental
}  // namespace grpc

namespace monsoon {

class Tls : public std::enable_shared_from_this<Tls> {
 public:
  // Of who the file says this process is. Errors: those of LoadCredential, and Unauthenticated
  // where its certificate has ended or not begun at `now`; only the other ends' are of this
  // moment's clock always.
  static absl::StatusOr<std::shared_ptr<Tls>> Open(const std::string& credential_file,
                                                   absl::Time now = absl::Now());
  // Of who has yet to join the cluster of this authority (PEM): it believes the authority's
  // members, and shows nothing. It makes channels only.
  static absl::StatusOr<std::shared_ptr<Tls>> ForJoining(const std::string& authority);
  ~Tls();

  // Of which it was made; "" of who has yet to join.
  const std::string& file() const { return file_; }
  const Authority& authority() const { return verifier_.authority(); }
  // Who this process is, from the file as it was first read; nobody for who has yet to join.
  const Identity& self() const { return self_.identity; }
  // Of its key.
  const std::string& self_fingerprint() const { return self_.key_fingerprint; }

  // As PeerVerifier::Verify, by this moment's clock. What has been verified once costs a lookup.
  absl::StatusOr<Peer> Verify(const std::string& certificate);

  // Whether the cluster's authority has signed it, whenever it counts.
  bool IsSigned(const std::string& certificate) const {
    return verifier_.VerifySigned(certificate).ok();
  }

  // `strangers`: takes connections without a certificate too, of those who want to join.
  std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(bool strangers);
  // For a server whose role is `server`.
  std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(Role server);

 private:
  Tls(std::string file, PeerVerifier verifier, Peer self,
      std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider);

  const std::string file_;
  const PeerVerifier verifier_;
  const Peer self_;
  const std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, Peer> verified_ ABSL_GUARDED_BY(mutex_);  // by PEM text
};

}  // namespace monsoon
